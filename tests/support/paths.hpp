// Where the source tree lies that the tests were built from.
#pragma once

#include <filesystem>

namespace sluice::test {

/// The root of the source tree. Compiled once, so that the objects of the tests do not depend on
/// where the tree lies.
std::filesystem::path source_dir();

}  // namespace sluice::test
