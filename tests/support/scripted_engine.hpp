// A real Engine without a model: byte tokens, a plain template, a backend that follows a script.
//
//   sluice::test::ScriptedEngineOptions options;
//   options.next_token = sluice::test::endless_script();  // or your own
//   sluice::Engine engine(sluice::test::scripted_engine(options));
//   engine.generate({.input = "abc"}, handler, sluice::Delivery::kOnReturn);
//
// Everything but the model is the real thing: actors, scheduling, KV accounting, stop rules.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/engine.hpp"
#include "engine/backend/scripted_backend.hpp"
#include "engine/base/error.hpp"

namespace sluice::test {

/// 256 byte tokens (id == byte), a start token and an end token.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr TokenId kBos = 256;
  static constexpr TokenId kEos = 257;

  ByteTokenizer() {
    for (std::size_t i = 0; i < 256; ++i) bytes_[i] = static_cast<char>(i);
  }

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override {
    std::vector<TokenId> ids;
    if (options.add_special) ids.push_back(kBos);
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::size_t vocab_size() const override { return 258; }
  std::string_view token_bytes(TokenId id) const override {
    if (id == kBos) return "<s>";
    if (id == kEos) return "</s>";
    if (id < 0 || id > kEos) return {};
    return {&bytes_[static_cast<std::size_t>(id)], 1};
  }
  bool is_special(TokenId id) const override { return id == kBos || id == kEos; }
  TokenId find_special(std::string_view text) const override {
    return text == "<s>" ? kBos : text == "</s>" ? kEos : -1;
  }
  TokenId bos() const override { return kBos; }
  std::span<const TokenId> end_tokens() const override { return end_tokens_; }
  std::string description() const override { return "bytes, 258 tokens"; }

 protected:
  bool adds_space_prefix() const override { return false; }

 private:
  std::array<char, 256> bytes_{};
  std::array<TokenId, 1> end_tokens_{kEos};
};

/// "role: content" and a line feed for every message, then "assistant: ".
class LineTemplate final : public ChatTemplate {
 public:
  RenderedPrompt render(std::span<const ChatMessage> messages,
                        bool add_generation_prompt) const override {
    RenderedPrompt prompt;
    for (const ChatMessage& message : messages) {
      if (message.role != "system" && message.role != "user" && message.role != "assistant") {
        throw Error(ErrorCode::kInvalidArgument, "A message has the unknown role \"" +
                                                     message.role +
                                                     "\"; use system, user or assistant.");
      }
      prompt.text += message.role + ": ";
      const std::size_t begin = prompt.text.size();
      prompt.text += message.content;
      prompt.literal.push_back({begin, prompt.text.size()});
      prompt.text += "\n";
    }
    if (add_generation_prompt) prompt.text += "assistant: ";
    return prompt;
  }
  std::vector<std::string> turn_ends() const override { return {"</s>"}; }
  std::string description() const override { return "lines"; }
};

using Script = std::function<TokenId(std::span<const TokenId>)>;

/// Lower-case letters and spaces that depend on every token so far (a lost, doubled or foreign
/// token changes everything after it). Never ends.
inline Script endless_script() {
  return [](std::span<const TokenId> tokens) -> TokenId {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const TokenId token : tokens) {
      hash = (hash ^ static_cast<std::uint64_t>(token)) * 0x100000001b3U;
    }
    const std::uint64_t letter = (hash >> 32U) % 27;
    return letter == 26 ? ' ' : static_cast<TokenId>('a' + letter);
  };
}

/// Like endless_script(), with the end token about once in `mean_length` tokens.
inline Script ending_script(std::uint64_t mean_length) {
  return [endless = endless_script(), mean_length](std::span<const TokenId> tokens) -> TokenId {
    std::uint64_t hash = 14695981039346656037U;
    for (const TokenId token : tokens) {
      hash = (hash + static_cast<std::uint64_t>(token) + 1) * 0x9e3779b97f4a7c15U;
    }
    if ((hash >> 40U) % mean_length == 0) return ByteTokenizer::kEos;
    return endless(tokens);
  };
}

/// Repeats `text` for ever, one byte a token; `prompt_tokens` (start token included) tells where
/// the output begins.
inline Script repeating_script(std::string text, std::size_t prompt_tokens) {
  return [text = std::move(text), prompt_tokens](std::span<const TokenId> tokens) -> TokenId {
    return static_cast<unsigned char>(text[(tokens.size() - prompt_tokens) % text.size()]);
  };
}

struct ScriptedEngineOptions {
  Script next_token = endless_script();
  std::chrono::nanoseconds per_token{0};
  std::chrono::nanoseconds per_step{0};
  std::shared_ptr<std::atomic<int>> steps_until_fatal;
  Position context = 512;
  std::int32_t num_blocks = 1024;
  std::int32_t block_size = 4;
  std::int32_t swap_slots = 0;          ///< of every group
  std::vector<KvVisibility> windows{};  ///< of groups of layers beside one that sees everything
  /// Everything else: scheduler, credit window, heartbeats, restarts.
  EngineConfig config;
};

inline std::function<std::unique_ptr<Backend>()> scripted_backend_factory(
    const ScriptedEngineOptions& options) {
  ScriptedBackendOptions backend;
  backend.next_token = options.next_token;
  backend.per_token = options.per_token;
  backend.per_step = options.per_step;
  backend.steps_until_fatal = options.steps_until_fatal;
  return [backend] { return make_scripted_backend(backend); };
}

inline PreparedEngine scripted_engine(const ScriptedEngineOptions& options) {
  PreparedEngine prepared;
  prepared.config = options.config;
  prepared.config.model = "scripted";
  ModelConfig& model = prepared.model_config;
  model.architecture = "scripted";
  model.name = "Scripted";
  model.num_layers = 1;
  model.hidden_size = 32;
  model.num_heads = 1;
  model.num_kv_heads = 1;
  model.head_dim = 32;
  model.ffn_size = 32;
  model.vocab_size = 258;
  model.context_length = options.context;
  prepared.tokenizer = std::make_shared<ByteTokenizer>();
  prepared.chat_template = std::make_shared<LineTemplate>();
  prepared.plan.block_size = options.block_size;
  prepared.plan.num_blocks = options.num_blocks;
  prepared.plan.groups.push_back({{}, 1, 1, options.num_blocks, options.swap_slots});
  for (const KvVisibility& window : options.windows) {
    prepared.plan.groups.push_back({window, 1, 1, options.num_blocks, options.swap_slots});
  }
  prepared.plan.max_chunk = options.config.scheduler.prefill_chunk;
  prepared.plan.context = options.context;
  prepared.plan.sequences =
      std::max(1, options.num_blocks * options.block_size / std::max(options.context, 1));
  prepared.plan.max_context_one_sequence =
      std::min(options.context, options.num_blocks * options.block_size);
  prepared.make_backend = scripted_backend_factory(options);
  return prepared;
}

}  // namespace sluice::test
