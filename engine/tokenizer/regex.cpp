#include "engine/tokenizer/regex.hpp"

#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <new>
#include <string>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/tokenizer/regex_dialect.hpp"

namespace sluice {
namespace {

/// What one search may cost. Patterns of published tokenizers stay far below; a hostile one must
/// not stop the program.
constexpr std::uint32_t kMostSteps = 1'000'000;
constexpr std::uint32_t kMostKibibytes = 64 * 1024;

pcre2_match_context* make_limits() {
  pcre2_match_context* limits = pcre2_match_context_create(nullptr);
  if (limits == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit(limits, kMostSteps);
  pcre2_set_heap_limit(limits, kMostKibibytes);
  return limits;
}

}  // namespace

Regex::Scratch::Scratch() : data_(pcre2_match_data_create(1, nullptr)), limits_(make_limits()) {
  if (data_ == nullptr) {
    pcre2_match_context_free(limits_);
    throw std::bad_alloc();
  }
}

Regex::Scratch::~Scratch() {
  pcre2_match_data_free(data_);
  pcre2_match_context_free(limits_);
}

Regex::Regex(std::string_view pattern, RegexDialect dialect) {
  const std::string expanded = translate_pattern(pattern, dialect == RegexDialect::kOniguruma);
  const std::uint32_t options =
      PCRE2_UTF | PCRE2_UCP |
      (dialect == RegexDialect::kOniguruma ? PCRE2_MULTILINE : PCRE2_DOLLAR_ENDONLY);
  int error = 0;
  PCRE2_SIZE where = 0;
  code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(), options,
                        &error, &where, nullptr);
  if (code_ == nullptr) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    throw Error(ErrorCode::kInternal,
                fmt::format("the pattern {} is faulty at {}: {}.", expanded, where,
                            reinterpret_cast<const char*>(message.data())));
  }
  jit_ = pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE) == 0;
}

Regex::~Regex() {
  pcre2_code_free(code_);
}

Regex::Regex(Regex&& other) noexcept
    : code_(std::exchange(other.code_, nullptr)), jit_(other.jit_) {}

std::optional<Regex::Match> Regex::find(std::string_view text, std::size_t from,
                                        Scratch& scratch) const {
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (jit_) {
    result = pcre2_jit_match(code_, subject, text.size(), from, 0, scratch.data_, scratch.limits_);
  }
  if (result < 0 && result != PCRE2_ERROR_NOMATCH && result != PCRE2_ERROR_MATCHLIMIT) {
    // The interpreter keeps its stack on the heap and has no small limit.
    result = pcre2_match(code_, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         scratch.data_, scratch.limits_);
  }
  if (result < 0) return std::nullopt;
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(scratch.data_);
  return Match{bounds[0], bounds[1]};
}

}  // namespace sluice
