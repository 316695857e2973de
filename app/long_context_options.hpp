// The flags of the experiments for long contexts.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "engine/model/key_basis.hpp"
#include "engine/model/sparse_attention.hpp"

namespace sluice::app {

struct LongContextOptions {
  SparseAttention sparse;
  std::filesystem::path key_basis;
  std::int32_t key_rank = 0;

  /// `this` must outlive the parsing.
  void add_to(CLI::App& command, const std::string& group);

  /// The basis; null without one. Throws Error as read_key_basis.
  std::shared_ptr<const KeyBasis> load_basis() const;
  /// ", window 128 stride 8, keys of rank 16"; empty when everything is off.
  std::string describe() const;
};

}  // namespace sluice::app
