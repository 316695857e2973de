#include "engine/formats/hf_window.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

/// For each layer whether it has a window, where the configuration lists them.
std::optional<std::vector<bool>> listed_windows(const HfConfigFile& config,
                                                std::int64_t num_layers) {
  const auto types = config.texts(config.text_part(), "layer_types");
  if (!types) return std::nullopt;
  if (types->size() != static_cast<std::size_t>(num_layers)) {
    config.corrupt(
        fmt::format("\"layer_types\" has {} entries for {} layers", types->size(), num_layers));
  }
  std::vector<bool> windows;
  for (const std::string& type : *types) {
    if (type != "full_attention" && type != "sliding_attention") {
      config.unsupported(fmt::format("layers of the type {}", quote_text(type)));
    }
    windows.push_back(type == "sliding_attention");
  }
  return windows;
}

/// Every n-th layer is full, the others have the window.
std::vector<bool> every_nth_full(std::int64_t n, std::int64_t num_layers) {
  std::vector<bool> windows;
  for (std::int64_t i = 0; i < num_layers; ++i) windows.push_back((i + 1) % n != 0);
  return windows;
}

std::int64_t period_of(HfWindow window) {
  if (window == HfWindow::kTwo) return 2;
  return window == HfWindow::kSix ? 6 : 4;
}

/// Families whose GGUF readers know the layers; a pattern is written only for other ones.
void read_periodic(const HfConfigFile& config, const HfFamily& family, std::int64_t num_layers,
                   const std::optional<std::vector<bool>>& listed, HfMetadataWriter& out) {
  const std::int64_t usual = period_of(family.window);
  const std::int64_t stated =
      config.integer({"sliding_window_pattern", "_sliding_window_pattern"}).value_or(usual);
  if (stated < 1) config.corrupt(fmt::format("\"sliding_window_pattern\" is {}", stated));
  std::vector<bool> windows = listed ? *listed : every_nth_full(stated, num_layers);
  // What the families' own configurations have when nothing is said.
  constexpr std::int64_t kUsualSize = 4096;
  out.set_integer("attention.sliding_window",
                  config.integer({"sliding_window"}).value_or(kUsualSize));
  if (windows != every_nth_full(usual, num_layers)) {
    out.set("attention.sliding_window_pattern", std::move(windows));
  }
}

}  // namespace

void read_hf_window(const HfConfigFile& config, const HfFamily& family, std::int64_t num_layers,
                    std::int64_t context_length, HfMetadataWriter& out) {
  if (family.window == HfWindow::kNone) return;
  const auto size = config.integer({"sliding_window"});
  if (size && (*size < 1 || *size > 1'000'000'000)) {
    config.corrupt(fmt::format("\"sliding_window\" is {}", *size));
  }
  const auto listed = listed_windows(config, num_layers);
  const bool periodic = family.window == HfWindow::kTwo || family.window == HfWindow::kFour ||
                        family.window == HfWindow::kSix;
  if (periodic) {
    read_periodic(config, family, num_layers, listed, out);
    return;
  }
  const bool asked_for =
      family.window != HfWindow::kAskedFor || config.flag({"use_sliding_window"}).value_or(false);
  if (!size || !asked_for || *size >= context_length) return;
  std::vector<bool> windows(static_cast<std::size_t>(num_layers), true);
  if (listed) {
    windows = *listed;
  } else if (family.window == HfWindow::kListed) {
    windows = every_nth_full(4, num_layers);
  } else if (family.window == HfWindow::kAskedFor) {
    // Layers from this one on have the window.
    const std::int64_t first = config.integer({"max_window_layers"}).value_or(num_layers);
    for (std::int64_t i = 0; i < std::min(first, num_layers); ++i) {
      windows[static_cast<std::size_t>(i)] = false;
    }
  }
  if (std::find(windows.begin(), windows.end(), true) == windows.end()) return;
  out.set_integer("attention.sliding_window", *size);
  const bool all = std::find(windows.begin(), windows.end(), false) == windows.end();
  if (!all || family.window == HfWindow::kListed) {
    out.set("attention.sliding_window_pattern", std::move(windows));
    return;
  }
  out.set_global("sluice.sliding_window_all_layers", true);
}

}  // namespace sluice
