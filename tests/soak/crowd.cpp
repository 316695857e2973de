#include "tests/soak/crowd.hpp"

#include <algorithm>
#include <utility>

namespace sluice::soak {

namespace {

/// A stream without its end after so long has been forgotten.
constexpr std::chrono::seconds kForgotten{120};

}  // namespace

Crowd::Crowd(StreamService& service, CrowdOptions options, Faults& faults, std::uint64_t seed)
    : service_(service),
      options_(std::move(options)),
      faults_(faults),
      random_(seed),
      places_(options_.streams) {}

void Crowd::turn() {
  for (Place& place : places_) {
    if (!place.listener) start(place);
    if (place.listener->ended()) {
      finish(place);
      continue;
    }
    const auto now = Clock::now();
    if (now - place.listener->born() > kForgotten) {
      faults_.report("a stream without its end after two minutes");
      place = {};
      continue;
    }
    if (place.acknowledges && dice(place.laziness) == 0) acknowledge(place);
    if (!place.undisturbed && now >= place.next_deed) disturb(place, now);
  }
}

bool Crowd::drain() {
  bool all = true;
  for (Place& place : places_) {
    if (!place.listener) continue;
    if (std::exchange(place.paused, false)) place.handle.resume();
    if (place.acknowledges) acknowledge(place);
    if (place.listener->ended()) {
      finish(place);
    } else {
      all = false;
    }
  }
  return all;
}

void Crowd::fill() {
  for (Place& place : places_) start(place);
}

void Crowd::expect_all_ended() {
  for (Place& place : places_) {
    if (!place.listener) continue;
    if (!place.listener->ended()) faults_.report("a stream without an end at the engine's end");
    finish(place);
  }
}

// -- one stream -----------------------------------------------------------------------------------

void Crowd::start(Place& place) {
  const Prompt prompt = options_.next_prompt(random_);
  place = {};
  place.listener = std::make_shared<Listener>(prompt.reference, faults_, alive_);
  place.acknowledges = dice(3) != 0;
  place.laziness = static_cast<unsigned>(1 + dice(dice(4) == 0 ? 60 : 4));
  place.longest = prompt.longest;
  place.undisturbed = dice(3) == 0;
  // Often at once, so that queue and prefill are hit as well.
  const auto wait = std::chrono::milliseconds(dice(3) == 0 ? 0 : dice(1500));
  place.next_deed = Clock::now() + wait;
  place.handle =
      service_.generate(make_request(prompt), place.listener->handler(),
                        place.acknowledges ? Delivery::kAcknowledged : Delivery::kOnReturn);
  ++started_;
}

GenerateRequest Crowd::make_request(const Prompt& prompt) {
  GenerateRequest request;
  request.input = prompt.text;
  request.sampling.temperature = 0.0F;
  StopOptions& stop = request.stop;
  const auto longest = static_cast<std::uint64_t>(prompt.longest);
  stop.max_new_tokens = static_cast<Position>(1 + dice(longest));
  if (dice(4) == 0) stop.stop_strings = some_stops();
  if (dice(10) == 0) stop.stop_patterns = {{.pattern = "[xyz] ?[a-c]{2}"}};
  if (dice(10) == 0) stop.ignore_end_tokens = true;
  if (dice(20) == 0) stop.time_limit = std::chrono::milliseconds(20 + dice(800));
  if (dice(20) == 0) {
    stop.custom = [](const StopView& view) -> std::optional<std::string> {
      if (view.text.ends_with("qq")) return "qq";
      return std::nullopt;
    };
  }
  if (dice(4) == 0) request.salt = std::string(1, static_cast<char>('a' + dice(3)));
  return request;
}

std::vector<StopString> Crowd::some_stops() {
  std::vector<StopString> stops;
  for (std::uint64_t i = 0; i <= dice(4); ++i) {
    stops.push_back({.text = options_.stop_texts[dice(options_.stop_texts.size())]});
  }
  return stops;
}

StreamChanges Crowd::make_changes(const Place& place) {
  StreamChanges changes;
  switch (dice(4)) {
    case 0:
      changes.stop_strings = some_stops();
      break;
    case 1:
      changes.stop_strings.emplace();
      changes.stop_patterns.emplace();
      break;
    case 2:
      if (options_.any_temperature) changes.temperature = static_cast<float>(dice(20)) / 10.0F;
      [[fallthrough]];
    default:
      changes.max_new_tokens =
          static_cast<Position>(1 + dice(static_cast<std::uint64_t>(place.longest)));
  }
  return changes;
}

void Crowd::disturb(Place& place, Clock::time_point now) {
  place.next_deed = now + std::chrono::milliseconds(1 + dice(800));
  if (std::exchange(place.paused, false)) {
    ++deeds_["resume"];
    return place.handle.resume();
  }
  switch (dice(8)) {
    case 0:
      ++deeds_["leave"];
      place.handle.listener_gone();
      ++outcomes_["(left)"];
      place = {};
      return;
    case 1:
      ++deeds_["cancel"];
      return place.handle.cancel("soak");
    case 2:
    case 3:
      ++deeds_["pause"];
      place.paused = true;
      return place.handle.pause();
    case 4:
      ++deeds_["drop the handle"];
      place.undisturbed = true;
      place.acknowledges = false;
      place.handle = {};
      return;
    default:
      ++deeds_["change"];
      return place.handle.change(make_changes(place));
  }
}

void Crowd::acknowledge(const Place& place) {
  if (const std::uint64_t number = place.listener->last_number(); number > 0) {
    place.handle.delivered(number);
  }
}

void Crowd::finish(Place& place) {
  acknowledge(place);
  ++outcomes_[place.listener->outcome()];
  const std::chrono::duration<double> life = Clock::now() - place.listener->born();
  slowest_seconds_ = std::max(slowest_seconds_, life.count());
  place = {};
}

}  // namespace sluice::soak
