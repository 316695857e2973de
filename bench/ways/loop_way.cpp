#include <stdexcept>
#include <utility>

#include "actors/stream_intake.hpp"
#include "bench/ways/ways.hpp"
#include "embed/engine_core.hpp"
#include "engine/schedule/engine_loop.hpp"

namespace sluice::bench {
namespace {

class LoopWay final : public Way {
 public:
  explicit LoopWay(PreparedEngine prepared) : prepared_(std::move(prepared)) {
    service_.tokenizer = prepared_.tokenizer;
    service_.chat_template = prepared_.chat_template;
    service_.context_length = prepared_.plan.context;
    service_.default_max_new_tokens = prepared_.config.default_max_new_tokens;
    service_.end_tokens = union_of_end_tokens(*prepared_.tokenizer, *prepared_.chat_template);
    backend_ = prepared_.make_backend();
    KvManagerOptions kv = kv_manager_options(prepared_.plan);
    kv.prefix_cache = prepared_.config.prefix_cache;
    KvPoolShape pool = pool_for(kv);
    pool.group_of_layer = prepared_.plan.group_of_layer;
    backend_->allocate_pool(pool);
    kv_ = std::make_unique<KvManager>(kv);
    SchedulerOptions options = prepared_.config.scheduler;
    options.context_length = prepared_.plan.context;
    options.token_budget = prepared_.config.plan.max_batch_tokens;
    scheduler_ = std::make_unique<Scheduler>(options);
  }

  std::string_view name() const override { return "loop"; }

  WayResult run(const std::vector<v0::Request>& requests) override {
    const auto begin = std::chrono::steady_clock::now();
    streams_.clear();
    first_id_ += running_;
    running_ = requests.size();
    for (const v0::Request& request : requests) submit(request);
    std::size_t open = requests.size();
    EngineLoop loop(*backend_, *scheduler_, *kv_);
    while (open > 0) {
      std::vector<SequenceId> ended;
      if (!loop.run_once([&](const Publication& publication) {
            if (on_publication(publication)) ended.push_back(publication.sequence);
          })) {
        throw std::runtime_error("the loop stands still");
      }
      for (const SequenceId id : ended) {
        scheduler_->remove(id);
        kv_->release(id);
      }
      open -= ended.size();
    }
    WayResult result;
    result.time = std::chrono::steady_clock::now() - begin;
    for (Stream& stream : streams_) {
      result.tokens += stream.drawn;
      result.texts.push_back(std::move(stream.text));
    }
    return result;
  }

 private:
  struct Stream {
    std::string text;
    Position drawn = 0;
    Position max_new_tokens = 0;
    std::vector<TokenId> end_tokens;
  };

  void submit(const v0::Request& request) {
    auto prepared = std::get<PreparedStream>(prepare_stream(embed::to_internal(request), service_));
    SequenceRequest sequence;
    sequence.id = first_id_ + streams_.size();
    sequence.prompt = prepared.prompt;
    sequence.sampling = prepared.sampling;
    sequence.max_new_tokens = prepared.session.max_new_tokens;
    sequence.end_tokens = prepared.end_tokens;
    sequence.credit = sequence.max_new_tokens;
    streams_.push_back({{}, 0, sequence.max_new_tokens, sequence.end_tokens});
    const RejectReason reason = scheduler_->submit(std::move(sequence), Scheduler::Clock::now());
    if (reason != RejectReason::kNone) throw std::runtime_error(reject_message(reason));
  }

  /// True at the end of the stream.
  bool on_publication(const Publication& publication) {
    Stream& stream = streams_[publication.sequence - first_id_];
    if (publication.kind == Publication::Kind::kEndOfRoom) return true;
    if (publication.kind != Publication::Kind::kToken) return false;
    const TokenId id = publication.token.id;
    ++stream.drawn;
    if (!prepared_.tokenizer->is_special(id)) stream.text += prepared_.tokenizer->token_bytes(id);
    for (const TokenId end : stream.end_tokens) {
      if (id == end) return true;
    }
    return stream.drawn >= stream.max_new_tokens;
  }

  PreparedEngine prepared_;
  ServiceContext service_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<KvManager> kv_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<Stream> streams_;
  SequenceId first_id_ = 1;
  std::size_t running_ = 0;
};

}  // namespace

std::unique_ptr<Way> make_loop_way(PreparedEngine prepared) {
  return std::make_unique<LoopWay>(std::move(prepared));
}

}  // namespace sluice::bench
