// Scores a file: answers every line as a prompt, many at a time, and writes what the model thought
// of its own answer, one tab-separated line each, in the order of the file:
//
//   mean log probability   tokens   why it ended   prompt   answer
//
//   batch_score MODEL prompts.txt [TOKENS]
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <mutex>
#include <sluice/engine.hpp>
#include <string>

namespace {

constexpr std::size_t kAtOnce = 32;  // beyond, lines wait here instead of in the engine's queue

struct Line {
  std::string prompt;
  std::string answer;
  std::string ending;
  double logprob_sum = 0.0;
  int tokens = 0;
  bool over = false;

  void add(const sluice::Event& event) {
    if (const auto* token = std::get_if<sluice::TokenEvent>(&event)) {
      answer += token->text;
      for (const sluice::TokenPiece& piece : token->pieces) {
        if (piece.id == sluice::kNoToken) continue;
        logprob_sum += static_cast<double>(piece.logprob);
        ++tokens;
      }
    } else if (const auto* done = std::get_if<sluice::DoneEvent>(&event)) {
      ending = name(done->rule);
    } else if (const auto* error = std::get_if<sluice::ErrorEvent>(&event)) {
      ending = error->code;
    }
    over = is_terminal(event);
  }
  void print() const {
    std::string shown = answer;
    for (char& c : shown) {
      if (c == '\n' || c == '\t') c = ' ';
    }
    std::printf("%.4f\t%d\t%s\t%s\t%s\n", tokens > 0 ? logprob_sum / tokens : 0.0, tokens,
                ending.c_str(), prompt.c_str(), shown.c_str());
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: batch_score MODEL FILE [TOKENS]\n");
    return 2;
  }
  try {
    std::ifstream file(argv[2]);
    if (!file) throw sluice::Error(sluice::ErrorCode::kNotFound, "Can't read the file of prompts.");

    std::mutex mutex;  // guards the lines
    std::condition_variable ended;
    std::deque<Line> lines;  // those under way, the oldest first

    sluice::Config config;
    config.model = argv[1];
    sluice::Engine engine{config};

    const auto print_first = [&](std::unique_lock<std::mutex>& lock) {
      ended.wait(lock, [&] { return lines.front().over; });
      lines.front().print();
      lines.pop_front();
    };
    for (std::string prompt; std::getline(file, prompt);) {
      Line* line = nullptr;
      {
        std::unique_lock lock(mutex);
        if (lines.size() == kAtOnce) print_first(lock);
        line = &lines.emplace_back();
        line->prompt = prompt;
      }
      sluice::Request request;
      request.input = std::move(prompt);
      request.sampling.temperature = 0.0F;
      request.stop.max_new_tokens = argc > 3 ? std::atoi(argv[3]) : 32;
      engine.generate(std::move(request), [&, line](const sluice::Event& event) {
        const std::lock_guard lock(mutex);
        line->add(event);
        if (line->over) ended.notify_one();
      });
    }
    for (std::unique_lock lock(mutex); !lines.empty();) print_first(lock);
    return 0;
  } catch (const sluice::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
