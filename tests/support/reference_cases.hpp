// The prompts and expected logits of a folder of reference data (cases.json, logits.bin).
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/types.hpp"

namespace sluice::test {

struct ReferenceCase {
  std::string id;
  std::string kv;      ///< type of the KV cache: "f32", "f16", "q8_0"
  Position n_ctx = 0;  ///< context that the model was run with; matters for longrope
  std::vector<TokenId> tokens;
  std::vector<std::size_t> positions;          ///< with stored logits
  std::map<std::string, std::size_t> offsets;  ///< of each kind of logits, in bytes
  std::map<std::string, double> tolerance;     ///< of the case, or of the file where it has none
  std::vector<TokenId> greedy;
  std::vector<double> greedy_margin;    ///< largest minus second largest logit at each step
  std::vector<TokenId> dequant_greedy;  ///< empty unless the weights are quantised
  std::vector<double> dequant_margin;

  /// The greedy tokens that an answer within `tolerance` must give.
  std::vector<TokenId> certain_tokens(const std::string& kind, double allowed) const {
    const std::vector<double>& margin = kind == "dequant" ? dequant_margin : greedy_margin;
    std::vector<TokenId> certain = kind == "dequant" ? dequant_greedy : greedy;
    for (std::size_t i = 0; i < margin.size() && i < certain.size(); ++i)
      if (margin[i] < 2 * allowed) certain.resize(i);
    return certain;
  }
};

class ReferenceCases {
 public:
  /// `json` names the file with the cases; the logits lie beside it.
  explicit ReferenceCases(const std::filesystem::path& json) {
    simdjson::dom::parser parser;
    const simdjson::dom::element root = parser.load(json.string());
    vocab_size_ = static_cast<std::size_t>(std::int64_t(root["vocab_size"]));
    std::map<std::string, double> tolerance;
    read_numbers(root["tolerance"], tolerance);
    const std::string_view logits_file = root["logits_file"];
    std::ifstream file(json.parent_path() / logits_file, std::ios::binary);
    logits_.assign(std::istreambuf_iterator<char>(file), {});
    for (const simdjson::dom::element entry : root["cases"]) {
      ReferenceCase c;
      c.id = std::string(std::string_view(entry["id"]));
      c.kv = std::string(std::string_view(entry["kv"]));
      read_ids(entry["tokens"], c.tokens);
      for (const std::int64_t p : simdjson::dom::array(entry["positions"]))
        c.positions.push_back(static_cast<std::size_t>(p));
      std::map<std::string, double> offsets;
      read_numbers(entry["offsets"], offsets);
      for (const auto& [name, value] : offsets) c.offsets[name] = static_cast<std::size_t>(value);
      c.tolerance = tolerance;
      simdjson::dom::element own;
      if (entry["tolerance"].get(own) == simdjson::SUCCESS) read_numbers(own, c.tolerance);
      if (entry["greedy"].get(own) == simdjson::SUCCESS) read_ids(own, c.greedy);
      if (entry["greedy_margin"].get(own) == simdjson::SUCCESS) read_list(own, c.greedy_margin);
      if (entry["dequant_greedy"].get(own) == simdjson::SUCCESS) read_ids(own, c.dequant_greedy);
      if (entry["dequant_margin"].get(own) == simdjson::SUCCESS) read_list(own, c.dequant_margin);
      if (entry["n_ctx"].get(own) == simdjson::SUCCESS)
        c.n_ctx = static_cast<Position>(std::int64_t(own));
      cases_.push_back(std::move(c));
    }
  }

  std::size_t vocab_size() const { return vocab_size_; }
  const std::vector<ReferenceCase>& cases() const { return cases_; }

  /// Expected logits, [positions x vocab].
  std::vector<float> logits(const ReferenceCase& c, const std::string& kind) const {
    std::vector<float> values(c.positions.size() * vocab_size_);
    const std::size_t offset = c.offsets.at(kind);
    if (offset + values.size() * sizeof(float) > logits_.size())
      throw std::runtime_error("the file of logits is too short");
    std::memcpy(values.data(), logits_.data() + offset, values.size() * sizeof(float));
    return values;
  }

 private:
  static void read_ids(const simdjson::dom::element& array, std::vector<TokenId>& out) {
    for (const std::int64_t id : simdjson::dom::array(array))
      out.push_back(static_cast<TokenId>(id));
  }
  static void read_list(const simdjson::dom::element& array, std::vector<double>& out) {
    for (const double value : simdjson::dom::array(array)) out.push_back(value);
  }
  static void read_numbers(const simdjson::dom::element& object,
                           std::map<std::string, double>& out) {
    for (const auto field : simdjson::dom::object(object)) {
      double value = 0;
      if (field.value.get(value) == simdjson::SUCCESS) out[std::string(field.key)] = value;
    }
  }

  std::size_t vocab_size_ = 0;
  std::string logits_;
  std::vector<ReferenceCase> cases_;
};

}  // namespace sluice::test
