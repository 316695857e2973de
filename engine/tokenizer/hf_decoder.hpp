// The "decoder" of a tokenizer.json: steps that turn the texts of tokens into text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/formats/json_file.hpp"

namespace sluice {

/// One step over the texts of a whole answer. Immutable; safe to use from any thread.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual void apply(std::vector<std::string>& texts) const = 0;
  /// What the step makes of a token that stands between others. May give bytes of a part of a
  /// code point.
  virtual std::string apply_inside(std::string text) const = 0;
  /// The step drops a space in front of the whole text, or of its first token.
  virtual bool drops_first_space() const { return false; }
};

class HfDecoder {
 public:
  /// Reads the steps. Throws Error: kCorrupt, kUnsupported (naming the step).
  explicit HfDecoder(const JsonFile& file);

  /// The text of a whole answer. Bytes that make no code point are U+FFFD in it, as many as the
  /// library of tokenizer.json gives.
  std::string decode(std::vector<std::string> texts) const;
  /// The bytes that a token adds to a stream, wherever it stands.
  std::string token_bytes(std::string text) const;
  bool drops_first_space() const;

 private:
  std::vector<std::unique_ptr<const DecoderStep>> steps_;
};

}  // namespace sluice
