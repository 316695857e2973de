#include "actors/service_info.hpp"

#include <fmt/format.h>

#include <map>

namespace sluice {

namespace {

/// 2774016 -> "2.8 M", 7000000000 -> "7.0 B".
std::string format_count(double count) {
  if (count >= 1e9) return fmt::format("{:.1f} B", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.1f} M", count / 1e6);
  if (count >= 1e3) return fmt::format("{:.1f} K", count / 1e3);
  return fmt::format("{:.0f}", count);
}

/// The type that most bytes of the weights have.
std::string_view main_type(const ModelSource& source) {
  std::map<std::string_view, std::size_t> bytes_of;
  for (const TensorView& tensor : source.tensors()) {
    bytes_of[traits(tensor.type).name] += tensor.data.size();
  }
  std::string_view best;
  std::size_t most = 0;
  for (const auto& [type, bytes] : bytes_of) {
    if (bytes > most) {
      best = type;
      most = bytes;
    }
  }
  return best;
}

}  // namespace

ServiceInfo make_service_info(const PreparedEngine& prepared, const ServiceContext& context,
                              const std::string& backend) {
  ServiceInfo info;
  info.model_name = context.model_name;
  info.model_path = prepared.config.model.string();
  info.model_summary = model_summary(prepared);
  info.backend = backend;
  info.chat_template = context.chat_template->description();
  info.tokenizer = context.tokenizer->description();
  info.plan = prepared.plan;
  info.context_length = context.context_length;
  info.default_max_new_tokens = context.default_max_new_tokens;
  for (const TokenId id : context.end_tokens) {
    info.end_tokens.emplace_back(context.tokenizer->token_bytes(id));
  }
  return info;
}

std::string model_summary(const PreparedEngine& prepared) {
  const ModelConfig& model = prepared.model_config;
  std::string summary = fmt::format("{}, {} layers", model.architecture, model.num_layers);
  if (!prepared.source) return summary;
  double elements = 0;
  for (const TensorView& tensor : prepared.source->tensors()) {
    elements += static_cast<double>(tensor.elements());
  }
  return fmt::format("{}, {} parameters, {}", summary, format_count(elements),
                     main_type(*prepared.source));
}

}  // namespace sluice
