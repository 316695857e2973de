// Small random T5 models: as a GGUF file, as a Hugging Face folder, and computed naively in double
// precision from their definition (Raffel et al. 2020), for tests of the encoder-decoder.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/base/types.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/model_folder.hpp"

namespace sluice::test {

struct T5Shape {
  std::int32_t hidden = 48;
  std::int32_t heads = 4;
  std::int32_t head_dim = 8;  ///< heads x head_dim is not hidden
  std::int32_t ffn = 80;
  std::int32_t encoder_layers = 2;
  std::int32_t decoder_layers = 3;
  std::int32_t vocab = 60;
  std::int32_t input = 512;  ///< longest
  std::int32_t buckets = 32;
  std::int32_t distance = 128;
  bool gated = false;  ///< with GELU; else ReLU without a gate
  bool tied = true;
  std::uint32_t seed = 1;
};

class T5Model {
 public:
  using Rows = std::vector<std::vector<double>>;

  explicit T5Model(const T5Shape& wanted) : shape(wanted), random_(wanted.seed) {
    const int q = shape.heads * shape.head_dim;
    matrix("shared", shape.vocab, shape.hidden, 1.0);
    for (const bool encoder : {true, false}) {
      const int layers = encoder ? shape.encoder_layers : shape.decoder_layers;
      const std::string stack = encoder ? "encoder" : "decoder";
      for (int i = 0; i < layers; ++i) {
        const auto layer = [&](int n) { return fmt::format("{}.block.{}.layer.{}.", stack, i, n); };
        attention(layer(0) + "SelfAttention.", q);
        norm(layer(0) + "layer_norm");
        if (i == 0)
          matrix(layer(0) + "SelfAttention.relative_attention_bias", shape.buckets, shape.heads,
                 1.5);
        if (!encoder) {
          attention(layer(1) + "EncDecAttention.", q);
          norm(layer(1) + "layer_norm");
        }
        const std::string last = layer(encoder ? 1 : 2);
        norm(last + "layer_norm");
        for (const char* name : {"wi", "wi_0", "wi_1"})
          if ((std::string(name) == "wi") != shape.gated)
            linear(last + "DenseReluDense." + name, shape.ffn, shape.hidden);
        linear(last + "DenseReluDense.wo", shape.hidden, shape.ffn);
      }
      norm(stack + ".final_layer_norm");
    }
    if (!shape.tied) linear("lm_head", shape.vocab, shape.hidden);
  }

  /// Logits after each token that the decoder reads.
  Rows logits(const std::vector<TokenId>& input, const std::vector<TokenId>& tokens) const {
    return logits_of(tokens, encode(input));
  }

  std::string gguf_bytes() const {
    GgufWriter writer;
    writer.add_string("general.architecture", "t5");
    writer.add_string("general.name", "random t5");
    const auto number = [&](const char* key, std::int32_t value) {
      writer.add_u32(std::string("t5.") + key, static_cast<std::uint32_t>(value));
    };
    number("block_count", shape.encoder_layers);
    if (shape.encoder_layers != shape.decoder_layers)
      number("decoder_block_count", shape.decoder_layers);
    number("embedding_length", shape.hidden);
    number("feed_forward_length", shape.ffn);
    number("context_length", shape.input);
    number("attention.head_count", shape.heads);
    number("attention.key_length", shape.head_dim);
    number("attention.value_length", shape.head_dim);
    number("attention.relative_buckets_count", shape.buckets);
    if (shape.distance != 128) number("attention.relative_max_distance", shape.distance);
    number("decoder_start_token_id", 0);
    writer.add_f32("t5.attention.layer_norm_epsilon", 1e-6F);
    writer.add_f32("t5.attention.layer_norm_rms_epsilon", 1e-6F);
    add_vocabulary(writer);
    for (const auto& [name, tensor] : tensors_) {
      std::vector<std::uint64_t> dimensions;
      for (auto i = tensor.shape.rbegin(); i != tensor.shape.rend(); ++i)
        dimensions.push_back(static_cast<std::uint64_t>(*i));
      writer.add_f32_tensor(gguf_name(name), dimensions, tensor.values);
    }
    return writer.bytes();
  }

  void write_folder(const TempFolder& folder) const {
    folder.write(
        "config.json",
        fmt::format(
            R"({{"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "d_model": {},
                 "d_kv": {}, "d_ff": {}, "num_layers": {}, "num_decoder_layers": {},
                 "num_heads": {}, "relative_attention_num_buckets": {},
                 "relative_attention_max_distance": {}, "layer_norm_epsilon": 1e-6,
                 "feed_forward_proj": "{}", "vocab_size": {}, "n_positions": {},
                 "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1,
                 "is_encoder_decoder": true, "tie_word_embeddings": {}}})",
            shape.hidden, shape.head_dim, shape.ffn, shape.encoder_layers, shape.decoder_layers,
            shape.heads, shape.buckets, shape.distance, shape.gated ? "gated-gelu" : "relu",
            shape.vocab, shape.input, shape.tied));
    SafetensorsWriter weights;
    for (const auto& [name, tensor] : tensors_)
      weights.add_f32(name + ".weight", tensor.shape, tensor.values);
    // What checkpoints hold beside it.
    const Tensor& shared = tensors_.at("shared");
    weights.add_f32("encoder.embed_tokens.weight", shared.shape, shared.values);
    weights.add_f32("decoder.embed_tokens.weight", shared.shape, shared.values);
    folder.write("model.safetensors", weights.bytes());
  }

  const T5Shape shape;

 private:
  struct Tensor {
    std::vector<std::int64_t> shape;  ///< [rows, columns] or [n]
    std::vector<float> values;
  };

  // -- random weights ---------------------------------------------------------------------------

  void matrix(const std::string& name, int rows, int columns, double deviation) {
    std::normal_distribution<double> values(0.0, deviation);
    Tensor tensor{{rows, columns}, {}};
    for (int i = 0; i < rows * columns; ++i)
      tensor.values.push_back(static_cast<float>(values(random_)));
    tensors_[name] = std::move(tensor);
  }
  void linear(const std::string& name, int rows, int columns) {
    matrix(name, rows, columns, 1.0 / std::sqrt(columns));
  }
  void attention(const std::string& prefix, int q) {
    for (const char* name : {"q", "k", "v"}) linear(prefix + name, q, shape.hidden);
    linear(prefix + "o", shape.hidden, q);
  }
  void norm(const std::string& name) {
    std::uniform_real_distribution<float> values(0.5F, 1.5F);
    Tensor tensor{{shape.hidden}, {}};
    for (int i = 0; i < shape.hidden; ++i) tensor.values.push_back(values(random_));
    tensors_[name] = std::move(tensor);
  }

  // -- names ------------------------------------------------------------------------------------

  static std::string gguf_name(const std::string& name) {
    if (name == "shared") return "token_embd.weight";
    if (name == "lm_head") return "output.weight";
    if (name == "encoder.final_layer_norm") return "enc.output_norm.weight";
    if (name == "decoder.final_layer_norm") return "dec.output_norm.weight";
    const bool encoder = name.starts_with("encoder");
    const std::size_t begin = std::string("encoder.block.").size();
    const std::size_t dot = name.find('.', begin);
    const std::string layer = name.substr(begin, dot - begin);
    const std::size_t part_at = dot + std::string(".layer.").size();
    const char sublayer = name[part_at];
    const std::string rest = name.substr(part_at + 2);
    std::string out;
    if (rest == "layer_norm") {
      out = sublayer == '0' ? "attn_norm" : "ffn_norm";
      if (!encoder && sublayer == '1') out = "cross_attn_norm";
    } else if (rest == "SelfAttention.relative_attention_bias") {
      out = "attn_rel_b";
    } else if (rest.starts_with("SelfAttention.")) {
      out = "attn_" + rest.substr(14);
    } else if (rest.starts_with("EncDecAttention.")) {
      out = "cross_attn_" + rest.substr(16);
    } else {
      out = rest.ends_with("wo") ? "ffn_down" : rest.ends_with("wi_0") ? "ffn_gate" : "ffn_up";
    }
    return fmt::format("{}.blk.{}.{}.weight", encoder ? "enc" : "dec", layer, out);
  }

  /// <pad>, </s>, <unk>, then letters as pieces.
  void add_vocabulary(GgufWriter& writer) const {
    std::vector<std::string> tokens = {"<pad>", "</s>", "<unk>", "\xE2\x96\x81"};
    std::vector<float> scores = {0, 0, 0, -2};
    std::vector<std::int32_t> types = {3, 3, 2, 1};
    for (std::int32_t i = 4; i < shape.vocab; ++i) {
      tokens.push_back(i < 30 ? std::string(1, static_cast<char>('a' + i - 4))
                              : fmt::format("{}{}", static_cast<char>('a' + (i - 30) % 26), i));
      scores.push_back(-3.0F - static_cast<float>(i) / 100.0F);
      types.push_back(1);
    }
    writer.add_string("tokenizer.ggml.model", "t5");
    writer.add_string("tokenizer.ggml.pre", "default");
    writer.add_strings("tokenizer.ggml.tokens", tokens);
    writer.add_f32s("tokenizer.ggml.scores", scores);
    writer.add_i32s("tokenizer.ggml.token_type", types);
    writer.add_u32("tokenizer.ggml.eos_token_id", 1);
    writer.add_u32("tokenizer.ggml.unknown_token_id", 2);
    writer.add_u32("tokenizer.ggml.padding_token_id", 0);
    writer.add_bool("tokenizer.ggml.add_bos_token", false);
    writer.add_bool("tokenizer.ggml.add_eos_token", true);
    writer.add_bool("tokenizer.ggml.add_space_prefix", true);
    writer.add_bool("tokenizer.ggml.remove_extra_whitespaces", true);
  }

  // -- the definition ---------------------------------------------------------------------------

  std::vector<double> multiply(const std::string& name, const std::vector<double>& x) const {
    const Tensor& w = tensors_.at(name);
    std::vector<double> y(static_cast<std::size_t>(w.shape[0]), 0.0);
    for (std::size_t r = 0; r < y.size(); ++r)
      for (std::size_t c = 0; c < x.size(); ++c)
        y[r] += static_cast<double>(w.values[r * x.size() + c]) * x[c];
    return y;
  }

  std::vector<double> normed(const std::string& name, const std::vector<double>& x) const {
    const Tensor& w = tensors_.at(name);
    double squares = 0;
    for (const double v : x) squares += v * v;
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-6);
    std::vector<double> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      y[i] = x[i] * scale * static_cast<double>(w.values[i]);
    return y;
  }

  /// Half of a direction's buckets for single distances, half for ranges that grow like the
  /// logarithm, up to the largest distance.
  int bucket(int key, int query, bool both) const {
    const int count = both ? shape.buckets / 2 : shape.buckets;
    const int base = both && key > query ? count : 0;
    int away = query - key;
    if (both) away = std::abs(away);
    if (away < 0) away = 0;
    if (away < count / 2) return base + away;
    const double share = std::log(2.0 * away / count) / std::log(2.0 * shape.distance / count);
    const int far = count / 2 + static_cast<int>(std::floor(share * (count / 2) + 1e-9));
    return base + std::min(far, count - 1);
  }

  /// `bias(head, key, query)` is added to a score; minus infinity hides the key.
  Rows attend(const std::string& prefix, const Rows& queries, const Rows& keys,
              const std::function<double(int, int, int)>& bias) const {
    const auto d = static_cast<std::size_t>(shape.head_dim);
    Rows k;
    Rows v;
    for (const auto& row : keys) {
      k.push_back(multiply(prefix + "k", row));
      v.push_back(multiply(prefix + "v", row));
    }
    Rows out;
    for (std::size_t i = 0; i < queries.size(); ++i) {
      const std::vector<double> q = multiply(prefix + "q", queries[i]);
      std::vector<double> mixed(q.size(), 0.0);
      for (int h = 0; h < shape.heads; ++h) {
        const std::size_t at = static_cast<std::size_t>(h) * d;
        std::vector<double> weight;
        for (std::size_t j = 0; j < k.size(); ++j) {
          double score = bias(h, static_cast<int>(j), static_cast<int>(i));
          for (std::size_t e = 0; e < d; ++e) score += q[at + e] * k[j][at + e];
          weight.push_back(score);
        }
        const double top = *std::ranges::max_element(weight);
        double sum = 0;
        for (double& w : weight) sum += w = std::exp(w - top);
        for (std::size_t j = 0; j < k.size(); ++j)
          for (std::size_t e = 0; e < d; ++e) mixed[at + e] += weight[j] / sum * v[j][at + e];
      }
      out.push_back(multiply(prefix + "o", mixed));
    }
    return out;
  }

  void feed_forward(const std::string& prefix, Rows& x) const {
    const std::string dense = prefix + "DenseReluDense.";
    for (auto& row : x) {
      const std::vector<double> n = normed(prefix + "layer_norm", row);
      std::vector<double> inner = multiply(dense + (shape.gated ? "wi_1" : "wi"), n);
      const std::vector<double> gate =
          shape.gated ? multiply(dense + "wi_0", n) : std::vector<double>();
      for (std::size_t i = 0; i < inner.size(); ++i) {
        constexpr double kRoot = 0.7978845608028654;  // sqrt(2 / pi)
        if (shape.gated)
          inner[i] *= 0.5 * gate[i] *
                      (1 + std::tanh(kRoot * (gate[i] + 0.044715 * gate[i] * gate[i] * gate[i])));
        else
          inner[i] = std::max(inner[i], 0.0);
      }
      add(row, multiply(dense + "wo", inner));
    }
  }

  static void add(std::vector<double>& x, const std::vector<double>& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  Rows embedded(const std::vector<TokenId>& tokens) const {
    const Tensor& table = tensors_.at("shared");
    Rows x;
    for (const TokenId token : tokens) {
      const auto from = table.values.begin() + static_cast<std::ptrdiff_t>(token) * shape.hidden;
      x.emplace_back(from, from + shape.hidden);
    }
    return x;
  }

  Rows all_normed(const std::string& name, const Rows& x) const {
    Rows y;
    for (const auto& row : x) y.push_back(normed(name, row));
    return y;
  }

  double bias_of(const std::string& stack, int head, int bucket) const {
    const Tensor& table =
        tensors_.at(stack + ".block.0.layer.0.SelfAttention.relative_attention_bias");
    return static_cast<double>(table.values[static_cast<std::size_t>(bucket * shape.heads + head)]);
  }

  Rows encode(const std::vector<TokenId>& input) const {
    Rows x = embedded(input);
    const auto bias = [&](int head, int key, int query) {
      return bias_of("encoder", head, bucket(key, query, true));
    };
    for (int i = 0; i < shape.encoder_layers; ++i) {
      const std::string layer = fmt::format("encoder.block.{}.layer.", i);
      const Rows n = all_normed(layer + "0.layer_norm", x);
      const Rows a = attend(layer + "0.SelfAttention.", n, n, bias);
      for (std::size_t r = 0; r < x.size(); ++r) add(x[r], a[r]);
      feed_forward(layer + "1.", x);
    }
    return all_normed("encoder.final_layer_norm", x);
  }

  Rows logits_of(const std::vector<TokenId>& tokens, const Rows& encoded) const {
    Rows x = embedded(tokens);
    const auto causal = [&](int head, int key, int query) {
      return key > query ? -HUGE_VAL : bias_of("decoder", head, bucket(key, query, false));
    };
    for (int i = 0; i < shape.decoder_layers; ++i) {
      const std::string layer = fmt::format("decoder.block.{}.layer.", i);
      const Rows n = all_normed(layer + "0.layer_norm", x);
      const Rows a = attend(layer + "0.SelfAttention.", n, n, causal);
      for (std::size_t r = 0; r < x.size(); ++r) add(x[r], a[r]);
      const Rows c = attend(layer + "1.EncDecAttention.", all_normed(layer + "1.layer_norm", x),
                            encoded, [](int, int, int) { return 0.0; });
      for (std::size_t r = 0; r < x.size(); ++r) add(x[r], c[r]);
      feed_forward(layer + "2.", x);
    }
    Rows out;
    for (const auto& row : all_normed("decoder.final_layer_norm", x)) {
      out.push_back(multiply(shape.tied ? "shared" : "lm_head", row));
      if (shape.tied)
        for (double& logit : out.back()) logit /= std::sqrt(shape.hidden);
    }
    return out;
  }

  std::mt19937 random_;
  std::map<std::string, Tensor> tensors_;  ///< by their names in folders, without ".weight"
};

/// `count` tokens, never those with a meaning.
inline std::vector<TokenId> random_tokens(std::mt19937& random, std::size_t count,
                                          std::int32_t vocab) {
  std::uniform_int_distribution<TokenId> any(3, vocab - 1);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = any(random);
  return tokens;
}

}  // namespace sluice::test
