// How long answers get, kept for the whole engine and over restarts of the process: where the
// default of max_new_tokens comes from.
//
//   AnswerLengths lengths(512, file_for(state_dir, model, tokenizer));   // or without a file
//   lengths.observe({.rule = StopRule::kEndToken, .tokens = 180});
//   lengths.in_force();                                // {512, observed: false} until there are
//                                                      // enough; engine/stream/length_sketch.hpp
//
// The file is read at the start and written by a thread of its own, at most once a minute and at
// the end, to a new file that then takes the old one's place: whoever reads it finds one whole
// version. Nothing about the file can stop an engine: what can't be read or written is said once,
// as a warning, and the numbers begin anew.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "actors/stream_service.hpp"
#include "engine/model/model_config.hpp"
#include "engine/stream/length_sketch.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace sluice {

/// Safe to use from any thread. observe() and in_force() never wait for the file.
class AnswerLengths {
 public:
  /// `configured` holds until enough answers have been seen. An empty `file`: nothing is kept.
  explicit AnswerLengths(Position configured, std::filesystem::path file = {},
                         std::chrono::milliseconds between_writes = std::chrono::minutes(1));
  /// Writes what is new.
  ~AnswerLengths();
  AnswerLengths(const AnswerLengths&) = delete;
  AnswerLengths& operator=(const AnswerLengths&) = delete;

  void observe(const LengthSketch::Ending& ending);
  DefaultMaximum in_force() const;

 private:
  void load();
  void keep_writing();
  void write(const std::string& text);
  void warn(const std::string& what);

  const Position configured_;
  const std::filesystem::path file_;
  const std::chrono::milliseconds between_writes_;

  mutable std::mutex mutex_;
  std::condition_variable woken_;
  LengthSketch sketch_;
  DefaultMaximum in_force_;
  bool changed_ = false;  ///< since the last write
  bool closing_ = false;
  bool warned_ = false;  ///< the writer's alone
  std::thread writer_;
};

/// The model's file in `state_dir`, by its name and what it is, wherever its own file lies: e.g.
/// "Llama-3-8B-1f3c09a2b6d45e78.lengths". Empty when `state_dir` is.
std::filesystem::path lengths_file(const std::filesystem::path& state_dir, const ModelConfig& model,
                                   const Tokenizer& tokenizer);

}  // namespace sluice
