// Parts an answer into what the model thought and what it says, at the marks that the model uses.
//
// Worked example, marks "<think>" and "</think>", fed token by token:
//   "<think>" -> nothing        "Hm" -> reasoning "Hm"      "</thi" -> nothing, may be the mark
//   "nk>\n" -> content "\n"     "Yes" -> content "Yes"
// Marks can be text, or special tokens, whose text is not shown at all.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace sluice::web::openai {

struct SplitText {
  std::string content{};
  std::string reasoning{};
};

class ReasoningSplitter {
 public:
  /// Empty marks: everything is content.
  ReasoningSplitter() = default;
  ReasoningSplitter(std::string open, std::string close, bool inside)
      : open_(std::move(open)), close_(std::move(close)), inside_(inside) {}

  /// Text that follows what came before.
  SplitText feed(std::string_view text);
  /// A special token, by its text.
  SplitText on_special(std::string_view text);
  /// Nothing follows: what could have become a mark is text.
  SplitText finish();
  bool inside() const { return inside_; }

 private:
  const std::string& awaited() const { return inside_ ? close_ : open_; }
  void put(SplitText& out, std::size_t bytes);

  std::string open_;
  std::string close_;
  bool inside_ = false;
  std::string held_;
};

}  // namespace sluice::web::openai
