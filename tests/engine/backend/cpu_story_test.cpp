// Whole answers of real models, as their cards tell them.
#include <catch2/catch.hpp>
#include <string>

#include "tests/engine/backend/cpu_rig.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

/// The pieces of the vocabulary joined, with their marks for space and line feed resolved.
std::string text_of(const ModelSource& source, const std::vector<TokenId>& tokens) {
  const std::vector<std::string>& pieces = *source.get_strings("tokenizer.ggml.tokens");
  std::string text;
  for (const TokenId id : tokens) text += pieces.at(static_cast<std::size_t>(id));
  replace_all(text, "\u2581", " ");  // SentencePiece space
  replace_all(text, "<0x0A>", "\n");
  replace_all(text, "\u0120", " ");  // space and line feed in the byte-level alphabet
  replace_all(text, "\u010A", "\n");
  return text;
}

}  // namespace

TEST_CASE("stories260K tells the story of its card") {
  const auto file = shared_dir("models/stories260K.gguf");
  if (!file) return;
  const auto source = open_model(*file);
  for (const DType kv : {DType::kF32, DType::kF16}) {
    CpuBackendOptions options = f32_kv();
    options.kv_type_k = options.kv_type_v = kv;
    CpuRig rig(source, options, 16);
    // Start token, then "Once upon a time".
    const std::string text = text_of(*source, rig.greedy({1, 403, 407, 261, 378}, 200));
    const std::string expected =
        ", there was a little girl named Lily. She loved to play outside in the park. One day, she "
        "saw a big, red ball. She wanted to play with it, but it was too high.\nLily's mom said, "
        "\"Lily, let's go to the park.\" Lily was sad and didn't know what to do. She said, \"I "
        "want to play with your ball, but I can'";
    CHECK(text.substr(0, expected.size()) == expected);
  }
}

TEST_CASE("the demo model gives the answers of its card") {
  const auto dir = shared_dir("models/demo");
  if (!dir) return;
  // ChatML turns: "Hello!", "Who are you?", "Tell me a story about a cat and a boat."
  const std::vector<TokenId> hello{1, 332, 13, 1117, 36, 2, 13, 1, 334, 13};
  const std::vector<TokenId> who{1, 332, 13, 90, 1485, 498, 324, 66, 2, 13, 1, 334, 13};
  const std::vector<TokenId> story{1,   332, 13,   715, 401, 261, 403, 392, 261, 554,
                                   274, 261, 1331, 49,  2,   13,  1,   334, 13};
  const std::string story_f32 =
      "Once upon a time, there was a little girl named Lily. She loved to play with her toys and "
      "watch the big boats in the park. One day, Lily's mom asked her to go to the park. Lily was "
      "very excited and wanted to go on the boat.";
  const std::string story_q8 =
      "Once upon a time, there was a little girl named Lily. She loved to play with her toys and "
      "make new friends. One day, Lily's mom asked her to help her make a special cake.";
  for (const bool q8 : {false, true}) {
    const auto source = open_model(*dir / (q8 ? "demo-q8_0.gguf" : "demo-f32.gguf"));
    CpuRig rig(source, f32_kv(), 16);
    CHECK(text_of(*source, rig.greedy(hello, 3)) == "Hello!<|im_end|>");
    const std::string answer = text_of(*source, rig.greedy(who, 60));
    CHECK(answer.substr(0, answer.find("<|im_end|>")) ==
          "I am a little story teller. I was trained on simple stories, so please do not ask me "
          "hard questions.");
    const std::string told = text_of(*source, rig.greedy(story, 80));
    // With F32 activations Q8_0 weights may take either path; the card says so.
    const bool as_f32 = told.substr(0, story_f32.size()) == story_f32;
    const bool as_q8 = told.substr(0, story_q8.size()) == story_q8;
    CAPTURE(q8, told);
    CHECK((as_f32 || (q8 && as_q8)));
  }
}
