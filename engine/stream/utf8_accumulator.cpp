#include "engine/stream/utf8_accumulator.hpp"

namespace sluice {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// What may follow a lead byte (Unicode 15, table 3-7): the length of the whole sequence (0: no
/// sequence begins so) and the range of the second byte. Later bytes are always 80..BF.
struct Lead {
  unsigned char length;
  unsigned char second_min;
  unsigned char second_max;
};

constexpr Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};  // a continuation byte, or an overlong form
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // nothing above U+10FFFF
  return {0, 0, 0};
}

constexpr unsigned char at(std::string_view bytes, std::size_t i) {
  return static_cast<unsigned char>(bytes[i]);
}

/// Whether `byte` can be number `index` (1, 2 or 3) of a sequence that begins with `lead`.
constexpr bool continues(const Lead& lead, std::size_t index, unsigned char byte) {
  if (index == 1) return byte >= lead.second_min && byte <= lead.second_max;
  return byte >= 0x80 && byte <= 0xBF;
}

/// How many bytes from `i` on belong to one sequence: lead.length of them when it is whole.
std::size_t matched_bytes(std::string_view bytes, std::size_t i, const Lead& lead) {
  std::size_t n = 1;
  while (n < lead.length && i + n < bytes.size() && continues(lead, n, at(bytes, i + n))) ++n;
  return n;
}

}  // namespace

void Utf8Accumulator::append(std::string_view bytes, std::string& out) {
  std::size_t i = 0;
  while (pending_size_ > 0 && i < bytes.size()) {
    const Lead lead = lead_of(static_cast<unsigned char>(pending_[0]));
    if (!continues(lead, pending_size_, at(bytes, i))) {
      out += kReplacement;  // the byte itself is looked at again
      pending_size_ = 0;
      break;
    }
    pending_[pending_size_++] = bytes[i++];
    if (pending_size_ == lead.length) {
      out.append(pending_, pending_size_);
      pending_size_ = 0;
    }
  }
  std::size_t copied = i;  // everything before it is in `out`
  while (i < bytes.size()) {
    const Lead lead = lead_of(at(bytes, i));
    const std::size_t n = lead.length == 0 ? 1 : matched_bytes(bytes, i, lead);
    if (n == lead.length) {
      i += n;
      continue;
    }
    out.append(bytes, copied, i - copied);
    if (lead.length != 0 && i + n == bytes.size()) {
      pending_size_ = bytes.copy(pending_, n, i);
      return;
    }
    out += kReplacement;
    i += n;
    copied = i;
  }
  out.append(bytes, copied, i - copied);
}

void Utf8Accumulator::finish(std::string& out) {
  if (pending_size_ > 0) out += kReplacement;
  pending_size_ = 0;
}

bool is_valid_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const Lead lead = lead_of(at(text, i));
    if (lead.length == 0 || matched_bytes(text, i, lead) != lead.length) return false;
    i += lead.length;
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  Utf8Accumulator accumulator;
  accumulator.append(text, out);
  accumulator.finish(out);
  return out;
}

}  // namespace sluice
