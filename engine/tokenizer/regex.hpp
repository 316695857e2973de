// A compiled regular expression over UTF-8, with Unicode classes.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

// Names of PCRE2's types, so that its header stays out of this one.
struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;

namespace sluice {

/// Whose rules a pattern is written for.
enum class RegexDialect {
  kPlain,  ///< PCRE's; `$` is the end of the text
  /// Oniguruma's, as in tokenizer.json: `^` and `$` stand at line breaks, `\h` is a hexadecimal
  /// digit, brackets may hold brackets and intersections ([\p{L}&&[^\p{Han}]]).
  kOniguruma,
};

/// Immutable; one object may be used by many threads, each with a scratch of its own.
class Regex {
 public:
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  /// Working memory of a search. Cheap to make; belongs to one thread at a time.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class Regex;
    pcre2_real_match_data_8* data_;
    pcre2_real_match_context_8* limits_;
  };

  /// `\s` and `\S` mean Unicode's White_Space here, as in the tokenizers that these patterns come
  /// from, and `\w` letters, marks, numbers and connectors. (PCRE2's own `\s` also has
  /// U+180E, which left that set in Unicode 6.3, and so does `\S` inside brackets.) Throws
  /// Error(kInternal) for a faulty pattern.
  explicit Regex(std::string_view pattern, RegexDialect dialect = RegexDialect::kPlain);
  ~Regex();
  Regex(Regex&& other) noexcept;
  Regex& operator=(Regex&&) = delete;
  Regex(const Regex&) = delete;

  /// First match in `text` that begins at or after `from`. `text` must be well-formed UTF-8.
  /// Also empty when a search takes too much memory or time, which only hostile patterns do.
  std::optional<Match> find(std::string_view text, std::size_t from, Scratch& scratch) const;

 private:
  pcre2_real_code_8* code_;
  bool jit_ = false;
};

}  // namespace sluice
