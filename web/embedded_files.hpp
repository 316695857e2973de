// The files of static/, compiled into the binary (cmake/EmbedStatic.cmake).
#pragma once

#include <span>
#include <string_view>

namespace sluice::web {

struct EmbeddedFile {
  std::string_view path;  ///< below static/, with '/', e.g. "js/app.js"
  std::string_view bytes;
};

/// Sorted by path.
std::span<const EmbeddedFile> embedded_files();

}  // namespace sluice::web
