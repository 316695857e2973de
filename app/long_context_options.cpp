#include "app/long_context_options.hpp"

#include <fmt/format.h>

namespace sluice::app {

void LongContextOptions::add_to(CLI::App& command, const std::string& group) {
  auto* window = command
                     .add_option("--attention-window", sparse.window,
                                 "Experiment: attention sees so many of the last positions ...")
                     ->check(CLI::Range(1, 1 << 24))
                     ->group(group);
  auto* stride = command
                     .add_option("--attention-stride", sparse.stride,
                                 "... and before them those whose number is a multiple of this")
                     ->check(CLI::Range(1, 1 << 24))
                     ->group(group);
  window->needs(stride);
  stride->needs(window);
  auto* basis = command
                    .add_option("--key-basis", key_basis,
                                "Experiment: file of sluice calibrate-keys for this model ...")
                    ->group(group);
  auto* rank = command
                   .add_option("--key-rank", key_rank,
                               "... with which keys are stored as so many elements of a head")
                   ->check(CLI::Range(1, 1 << 12))
                   ->group(group);
  basis->needs(rank);
  rank->needs(basis);
}

std::shared_ptr<const KeyBasis> LongContextOptions::load_basis() const {
  if (key_rank == 0) return nullptr;
  return std::make_shared<KeyBasis>(read_key_basis(key_basis));
}

std::string LongContextOptions::describe() const {
  std::string text;
  if (sparse.active()) text += fmt::format(", window {} stride {}", sparse.window, sparse.stride);
  if (key_rank > 0) text += fmt::format(", keys of rank {}", key_rank);
  return text;
}

}  // namespace sluice::app
