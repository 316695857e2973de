// Where the web layer says what a person may want to know.
#pragma once

#include <spdlog/logger.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace sluice::web {

/// The logger named "sluice" if the program has registered one, else one that drops everything: in
/// other people's programs the layer is silent unless they ask.
inline std::shared_ptr<spdlog::logger> web_log() {
  if (auto logger = spdlog::get("sluice")) return logger;
  return std::make_shared<spdlog::logger>("sluice");
}

}  // namespace sluice::web
