#include "tests/soak/wire_stream.hpp"

#include <fmt/format.h>

namespace sluice::soak {

namespace {

std::string_view text_of(const simdjson::dom::element& frame, const char* field) {
  std::string_view value;
  return frame[field].get(value) == simdjson::SUCCESS ? value : std::string_view();
}

std::uint64_t number_in(const simdjson::dom::element& frame, const char* field) {
  std::uint64_t value = 0;
  return frame[field].get(value) == simdjson::SUCCESS ? value : 0;
}

}  // namespace

void WireStream::on_frame(const simdjson::dom::element& frame) {
  if (!outcome_.empty()) return faults_->report("a frame after the terminal one");
  const std::string_view type = text_of(frame, "type");
  const std::uint64_t number = number_in(frame, "n");
  if (type != "heartbeat" && type != "error" && number <= number_) {
    faults_->report(fmt::format("event {} follows event {}", number, number_));
  }
  if (type != "error" || number > 0) number_ = std::max(number, number_);
  if (type == "accepted") key_ = text_of(frame, "stream");
  if (type == "token") on_token(frame);
  if (type == "done") on_done(frame);
  if (type == "error") outcome_ = "error:" + std::string(text_of(frame, "code"));
}

void WireStream::on_token(const simdjson::dom::element& frame) {
  const std::string_view text = text_of(frame, "text");
  std::string joined;
  for (const simdjson::dom::element token : frame["tokens"].get_array()) {
    joined += text_of(token, "text");
    std::int64_t id = 0;
    if (token["id"].get(id) != simdjson::SUCCESS || id < 0) continue;
    if (tokens_ >= reference_->ids.size() || reference_->ids[tokens_] != id) {
      faults_->report("a token that is not the stream's own");
    }
    ++tokens_;
  }
  if (joined != text) faults_->report("tokens that do not join to their frame's text");
  text_ += text;
  if (!std::string_view(reference_->text).starts_with(text_)) {
    faults_->report("text that is not the stream's own");
  }
}

void WireStream::on_done(const simdjson::dom::element& frame) {
  outcome_ = text_of(frame, "rule");
  const std::uint64_t counted = number_in(frame["usage"].value(), "completion_tokens");
  if (counted != tokens_) {
    faults_->report(fmt::format("{} tokens received, {} counted", tokens_, counted));
  }
  if (outcome_ == "stop_string" && number_in(frame, "position") != text_.size()) {
    faults_->report("text that goes on behind a stop string");
  }
}

}  // namespace sluice::soak
