// The "model" of a tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/formats/json_file.hpp"
#include "engine/tokenizer/hf_vocabulary.hpp"
#include "engine/tokenizer/piece_model.hpp"

namespace sluice {

/// "BPE", "Unigram", "WordPiece" or "WordLevel"; told from the members where the file does not
/// say. Throws Error(kUnsupported) for another one.
std::string_view hf_model_type(const JsonFile& file, simdjson::dom::element model);

/// Makes the model. `byte_level`: a BPE reads bytes, and the entries of `vocabulary` get the bytes
/// that their texts stand for. The model refers to `vocabulary` or `texts`, the tokens as in the
/// file; both must stay where they are. Throws Error: kCorrupt, kUnsupported (dropout).
std::unique_ptr<const PieceModel> make_hf_model(const JsonFile& file, simdjson::dom::element model,
                                                bool byte_level, Vocabulary& vocabulary,
                                                std::span<const std::string> texts,
                                                std::vector<double> scores);

}  // namespace sluice
