// The "pre_tokenizer" of a tokenizer.json.
#pragma once

#include <string_view>
#include <vector>

#include "engine/formats/json_file.hpp"
#include "engine/tokenizer/piece_splitter.hpp"

namespace sluice {

class HfSplitter {
 public:
  /// Reads the steps; none where the file has no pre-tokenizer. `raw_bytes`: the model reads bytes
  /// instead of their stand-ins, so a ByteLevel step at the end need not write any. Throws Error:
  /// kCorrupt, kUnsupported (naming the step).
  HfSplitter(const JsonFile& file, bool raw_bytes);

  /// Cuts and rewrites. `begins_the_text`: `text` stands at the start of what is encoded.
  Pieces split(std::string_view text, bool begins_the_text) const;

  /// Some step is ByteLevel.
  bool has_byte_level() const { return has_byte_level_; }
  /// The pieces are in the byte alphabet. Never with `raw_bytes` and ByteLevel at the end.
  bool gives_stand_ins() const { return gives_stand_ins_; }

 private:
  class Reader;
  std::vector<SplitterStepPtr> steps_;
  bool has_byte_level_ = false;
  bool gives_stand_ins_ = false;
};

}  // namespace sluice
