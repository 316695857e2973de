#include "tests/soak/socket_crowd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/json_writer.hpp"
#include "tests/soak/socket_client.hpp"
#include "tests/soak/wire_stream.hpp"

namespace sluice::soak {

namespace {

using Clock = WireStream::Clock;

constexpr std::chrono::milliseconds kBetweenTurns{2};
constexpr std::chrono::seconds kForgotten{120};
constexpr int kKeepMs = 10000;

std::string steering(const char* type, const std::string& id) {
  JsonWriter json;
  return json.begin_object().field("type", type).field("id", id).end_object().str();
}

}  // namespace

struct SocketCrowd::Impl : std::enable_shared_from_this<SocketCrowd::Impl> {
  /// A connection and the streams on it, by the ids that they have there.
  struct Place {
    std::shared_ptr<SocketClient> socket;  ///< none: not connected
    std::map<std::string, WireStream> streams;
    Clock::time_point next_deed{};
  };
  struct Left {
    WireStream stream;
    Clock::time_point missed;  ///< somebody comes back for it then
  };

  Impl(std::uint16_t to_port, CrowdOptions how, Faults& where, std::uint64_t seed)
      : port(to_port),
        options(std::move(how)),
        faults(where),
        random(seed),
        places(std::max<std::size_t>(options.streams / kStreamsPerClient, 1)) {}

  void wait_for_turn();
  void turn(Place& place, Clock::time_point now);
  void connect(Place& place);
  void fill(Place& place, Clock::time_point now);
  void start(Place& place);
  void view(Place& place, WireStream stream);
  void on_frame(Place& place, const std::string& frame);
  void on_lost(Place& place);
  void disturb(Place& place, Clock::time_point now);
  void leave(Place& place, bool politely, Clock::time_point now);
  void steer(Place& place, const std::string& id, WireStream& stream);
  std::string change(const std::string& id);
  const WireStream* any_kept();
  void settle(Place& place);
  std::uint64_t dice(std::uint64_t sides) { return random() % sides; }

  const std::uint16_t port;
  const CrowdOptions options;
  Faults& faults;

  boost::asio::io_context io{1};
  boost::asio::steady_timer timer{io};
  std::thread thread;
  std::atomic<bool> draining{false};
  std::atomic<bool> stopping{false};

  std::mutex mutex;  ///< for everything below
  Random random;
  std::vector<Place> places;
  std::deque<Left> left;
  simdjson::dom::parser parser;
  std::uint64_t last_id = 0;
  std::uint64_t started = 0;
  std::uint64_t turns = 0;
  std::map<std::string, std::uint64_t> outcomes;
  std::map<std::string, std::uint64_t> deeds;
  double slowest_seconds = 0;
};

SocketCrowd::SocketCrowd(std::uint16_t port, CrowdOptions options, Faults& faults,
                         std::uint64_t seed)
    : impl_(std::make_shared<Impl>(port, std::move(options), faults, seed)) {
  impl_->wait_for_turn();
  impl_->thread = std::thread([impl = impl_.get()] { impl->io.run(); });
}

SocketCrowd::~SocketCrowd() {
  stop();
}

bool SocketCrowd::drain() {
  impl_->draining = true;
  const std::lock_guard lock(impl_->mutex);
  return impl_->left.empty() && std::all_of(impl_->places.begin(), impl_->places.end(),
                                            [](const auto& p) { return p.streams.empty(); });
}

void SocketCrowd::stop() {
  if (!impl_->thread.joinable()) return;
  impl_->stopping = true;  // the next turn closes all, then nothing is left to do
  impl_->thread.join();
}

std::uint64_t SocketCrowd::started() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->started;
}

std::map<std::string, std::uint64_t> SocketCrowd::outcomes() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->outcomes;
}

std::map<std::string, std::uint64_t> SocketCrowd::deeds() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->deeds;
}

double SocketCrowd::slowest_seconds() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->slowest_seconds;
}

// -- turns ----------------------------------------------------------------------------------------

void SocketCrowd::Impl::wait_for_turn() {
  timer.expires_after(kBetweenTurns);
  timer.async_wait([this](const boost::system::error_code&) {
    const std::lock_guard lock(mutex);
    if (stopping) {
      for (Place& place : places) {
        if (place.socket) place.socket->close();
      }
      return;
    }
    ++turns;
    const auto now = Clock::now();
    for (Place& place : places) turn(place, now);
    wait_for_turn();
  });
}

void SocketCrowd::Impl::turn(Place& place, Clock::time_point now) {
  if (!place.socket) connect(place);
  if (!place.socket) return;
  fill(place, now);
  if (draining) {
    settle(place);
  } else if (now >= place.next_deed) {
    place.next_deed = now + std::chrono::milliseconds(dice(80));
    disturb(place, now);
  }
  for (const auto& [id, stream] : place.streams) {
    if (now - stream.born() < kForgotten) continue;
    faults.report("a stream without its end after two minutes");
    return leave(place, false, now);
  }
}

void SocketCrowd::Impl::connect(Place& place) {
  place.socket = std::make_shared<SocketClient>(
      io, SocketClient::Handlers{[this, &place](const std::string& frame) {
                                   const std::lock_guard lock(mutex);
                                   on_frame(place, frame);
                                 },
                                 [this, &place] {
                                   const std::lock_guard lock(mutex);
                                   on_lost(place);
                                 }});
  try {
    place.socket->connect(port);
  } catch (const std::exception& error) {
    faults.report(std::string("no connection: ") + error.what());
    place.socket.reset();
  }
}

void SocketCrowd::Impl::fill(Place& place, Clock::time_point now) {
  while (place.streams.size() < kStreamsPerClient) {
    const auto missed = std::find_if(left.begin(), left.end(), [&](const Left& entry) {
      return draining || now >= entry.missed;
    });
    if (missed != left.end()) {
      ++deeds["come back"];
      WireStream stream = std::move(missed->stream);
      left.erase(missed);
      view(place, std::move(stream));
    } else if (draining) {
      return;
    } else {
      start(place);
    }
  }
}

void SocketCrowd::Impl::start(Place& place) {
  const Prompt prompt = options.next_prompt(random);
  const std::string id = "s" + std::to_string(++last_id);
  JsonWriter json;
  json.begin_object().field("type", "generate").field("id", id).field("prompt", prompt.text);
  json.field("max_tokens", 1 + dice(static_cast<std::uint64_t>(prompt.longest)));
  json.field("temperature", 0);
  if (dice(4) == 0) {
    json.key("stop").begin_array();
    for (std::uint64_t i = 0; i <= dice(4); ++i) {
      json.value(options.stop_texts[dice(options.stop_texts.size())]);
    }
    json.end_array();
  }
  if (dice(20) == 0) json.field("time_limit_ms", 20 + dice(800));
  if (dice(2) == 0) json.field("keep_ms", kKeepMs);
  place.streams.emplace(id, WireStream(prompt.reference, faults));
  place.socket->send(json.end_object().take());
  ++started;
}

/// Attaches to a kept stream, behind what is known of it already.
void SocketCrowd::Impl::view(Place& place, WireStream stream) {
  const std::string id = "v" + std::to_string(++last_id);
  JsonWriter json;
  json.begin_object().field("type", "resume").field("id", id).field("stream", stream.key());
  json.field("after", stream.last_number()).end_object();
  place.socket->send(json.take());
  if (stream.paused) place.socket->send(steering("unpause", id));
  stream.paused = false;
  place.streams.emplace(id, std::move(stream));
}

void SocketCrowd::Impl::on_frame(Place& place, const std::string& frame) {
  simdjson::dom::element root;
  std::string_view id;
  if (parser.parse(frame).get(root) != simdjson::SUCCESS) {
    return faults.report("a frame that is no JSON");
  }
  if (root["id"].get(id) != simdjson::SUCCESS) {
    if (frame.find(R"("type":"error")") != std::string::npos) faults.report(frame);
    return;
  }
  const auto found = place.streams.find(std::string(id));
  if (found == place.streams.end()) return faults.report("a frame of an unknown stream: " + frame);
  WireStream& stream = found->second;
  stream.on_frame(root);
  if (stream.outcome().empty()) return;
  ++outcomes[stream.outcome()];
  if (stream.outcome() == "error:unknown_stream" || stream.outcome() == "error:gone_too_far") {
    faults.report("a kept stream was lost: " + stream.outcome());
  }
  const std::chrono::duration<double> life = Clock::now() - stream.born();
  slowest_seconds = std::max(slowest_seconds, life.count());
  place.streams.erase(found);
}

void SocketCrowd::Impl::on_lost(Place& place) {
  if (!stopping) faults.report("the server ended a connection");
  place.socket.reset();
  place.streams.clear();
}

// -- deeds ----------------------------------------------------------------------------------------

void SocketCrowd::Impl::disturb(Place& place, Clock::time_point now) {
  switch (dice(60)) {
    case 0:
      return leave(place, true, now);
    case 1:
    case 2:
      return leave(place, false, now);
    case 3:
    case 4:
      ++deeds["read later"];
      return place.socket->read_later(std::chrono::milliseconds(dice(1500)));
    case 5:
    case 6:
      if (const WireStream* other = any_kept()) {
        ++deeds["look at another's"];
        WireStream copy(other->reference(), faults);
        copy.set_key(other->key());
        view(place, std::move(copy));
      }
      return;
    default:
      break;
  }
  if (place.streams.empty()) return;
  const auto chosen =
      std::next(place.streams.begin(), static_cast<std::ptrdiff_t>(dice(place.streams.size())));
  steer(place, chosen->first, chosen->second);
}

/// Streams that are kept wait for somebody to come back; the others end.
void SocketCrowd::Impl::leave(Place& place, bool politely, Clock::time_point now) {
  ++deeds[politely ? "close" : "vanish"];
  for (auto& [id, stream] : place.streams) {
    if (stream.key().empty()) {
      ++outcomes["(left)"];
    } else {
      left.push_back({std::move(stream), now + std::chrono::milliseconds(dice(800))});
    }
  }
  place.streams.clear();
  if (politely) {
    place.socket->close();
  } else {
    place.socket->vanish();
  }
  place.socket.reset();
}

void SocketCrowd::Impl::steer(Place& place, const std::string& id, WireStream& stream) {
  const auto say = [&](const char* type) {
    ++deeds[type];
    place.socket->send(steering(type, id));
  };
  if (std::exchange(stream.paused, false)) return say("unpause");
  switch (dice(6)) {
    case 0:
      return say("cancel");
    case 1:
    case 2:
      stream.paused = true;
      return say("pause");
    case 3:
      return say("unpause");  // another viewer may have paused it
    default:
      ++deeds["change"];
      return place.socket->send(change(id));
  }
}

std::string SocketCrowd::Impl::change(const std::string& id) {
  JsonWriter json;
  json.begin_object().field("type", "change").field("id", id);
  if (dice(2) == 0) json.field("max_tokens", 1 + dice(200));
  json.field("temperature", 0.5);
  if (dice(2) == 0) json.field("stop", options.stop_texts[dice(options.stop_texts.size())]);
  return json.end_object().take();
}

const WireStream* SocketCrowd::Impl::any_kept() {
  for (const auto& [id, stream] : places[dice(places.size())].streams) {
    if (!stream.key().empty()) return &stream;
  }
  return nullptr;
}

/// Nobody pauses any more.
void SocketCrowd::Impl::settle(Place& place) {
  if (turns % 100 != 0) return;
  for (auto& [id, stream] : place.streams) {
    stream.paused = false;
    place.socket->send(steering("unpause", id));
  }
}

}  // namespace sluice::soak
