#include "engine/convert/output_tensors.hpp"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

struct ExpertName {
  std::string together;  ///< "blk.0.ffn_gate_exps.weight"
  std::size_t number = 0;
};

/// Takes "blk.0.ffn_gate.3.weight" apart.
std::optional<ExpertName> expert_name(std::string_view name) {
  for (const std::string_view part : {".ffn_gate.", ".ffn_up.", ".ffn_down."}) {
    const std::size_t at = name.find(part);
    if (at == std::string_view::npos) continue;
    const char* digits = name.data() + at + part.size();
    const char* last = name.data() + name.size();
    ExpertName expert;
    const auto [end, error] = std::from_chars(digits, last, expert.number);
    if (error != std::errc() || end == last) return std::nullopt;
    expert.together = fmt::format("{}_exps{}", name.substr(0, at + part.size() - 1),
                                  std::string_view(end, static_cast<std::size_t>(last - end)));
    return expert;
  }
  return std::nullopt;
}

class Planner {
 public:
  Planner(const ModelSource& source, const QuantizeRecipe& recipe)
      : source_(source), recipe_(recipe), arch_(source.require_string("general.architecture")) {
    model_.num_layers = source.require_int(arch_ + ".block_count");
    model_.tied = source.find_tensor("output.weight") == nullptr;
    if (source.get_bool("sluice.rope_halves").value_or(false)) {
      const std::int64_t heads = source.require_int(arch_ + ".attention.head_count");
      head_dim_ = source.get_int(arch_ + ".attention.key_length")
                      .value_or(source.require_int(arch_ + ".embedding_length") / heads);
    }
  }

  std::vector<OutputTensor> plan() {
    for (const TensorView& tensor : source_.tensors()) add(tensor);
    for (const auto& [name, index] : expert_index_) finish_experts(outputs_[index]);
    for (OutputTensor& output : outputs_) {
      output.info.type = quantized_type(
          recipe_, model_, {output.info.name, output.info.shape, output.source_type()});
    }
    return std::move(outputs_);
  }

 private:
  void add(const TensorView& tensor) {
    if (const auto expert = expert_name(tensor.name)) return add_expert(tensor, *expert);
    OutputTensor output;
    output.info = {tensor.name, tensor.type, tensor.shape};
    output.pieces = {&tensor};
    const bool rotated = tensor.name.find(".attn_q.") != std::string::npos ||
                         tensor.name.find(".attn_k.") != std::string::npos;
    if (head_dim_ > 1 && rotated) output.rotated_head_dim = head_dim_;
    check_heads(output);
    outputs_.push_back(std::move(output));
  }

  void check_heads(const OutputTensor& output) const {
    if (output.rotated_head_dim == 0) return;
    const std::int64_t n = output.info.shape.size() == 1 ? output.info.shape[0] : output.rows();
    if (n % output.rotated_head_dim == 0 && output.rotated_head_dim % 2 == 0) return;
    corrupt(fmt::format("tensor {} has {} rows, not whole heads of {}", output.info.name, n,
                        output.rotated_head_dim));
  }

  void add_expert(const TensorView& tensor, const ExpertName& expert) {
    const auto [place, inserted] = expert_index_.emplace(expert.together, outputs_.size());
    if (inserted) {
      OutputTensor output;
      output.info = {expert.together, tensor.type, tensor.shape};
      outputs_.push_back(std::move(output));
    }
    OutputTensor& output = outputs_[place->second];
    if (expert.number >= source_.tensors().size()) {
      corrupt(fmt::format("there is no expert {}", quote_text(tensor.name)));
    }
    if (expert.number >= output.pieces.size()) output.pieces.resize(expert.number + 1, nullptr);
    output.pieces[expert.number] = &tensor;
  }

  void finish_experts(OutputTensor& output) const {
    for (std::size_t i = 0; i < output.pieces.size(); ++i) {
      const TensorView* piece = output.pieces[i];
      if (piece == nullptr) corrupt(fmt::format("{}: expert {} is missing", output.info.name, i));
      if (piece->shape != output.info.shape || piece->type != output.pieces.front()->type) {
        corrupt(fmt::format("{}: expert {} has another shape or type", output.info.name, i));
      }
    }
    output.info.shape.push_back(static_cast<std::int64_t>(output.pieces.size()));
  }

  [[noreturn]] void corrupt(const std::string& fault) const {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{}: {}; the model is incomplete or contradicts itself.",
                            source_.path().string(), fault));
  }

  const ModelSource& source_;
  const QuantizeRecipe& recipe_;
  std::string arch_;
  ModelToQuantize model_;
  std::int64_t head_dim_ = 0;
  std::vector<OutputTensor> outputs_;
  std::map<std::string, std::size_t> expert_index_;
};

}  // namespace

std::int64_t OutputTensor::rows() const {
  std::int64_t rows = 1;
  for (std::size_t i = 1; i < info.shape.size(); ++i) rows *= info.shape[i];
  return rows;
}

std::span<const std::byte> OutputTensor::source_row(std::int64_t r) const {
  const std::int64_t rows_of_piece = rows() / static_cast<std::int64_t>(pieces.size());
  const TensorView& piece = *pieces[static_cast<std::size_t>(r / rows_of_piece)];
  std::int64_t row = r % rows_of_piece;
  if (rotated_head_dim > 0 && info.shape.size() > 1) {
    const std::int64_t in_head = row % rotated_head_dim;
    row += in_head / 2 + (in_head % 2) * (rotated_head_dim / 2) - in_head;
  }
  const std::size_t bytes = bytes_for(piece.type, static_cast<std::size_t>(row_length()));
  return piece.data.subspan(static_cast<std::size_t>(row) * bytes, bytes);
}

std::vector<OutputTensor> output_tensors(const ModelSource& source, const QuantizeRecipe& recipe) {
  return Planner(source, recipe).plan();
}

}  // namespace sluice
