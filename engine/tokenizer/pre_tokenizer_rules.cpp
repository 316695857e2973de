// The splitting rules of published model families. Each pattern is a fact about a tokenizer: it
// was part of training, and any other split gives other tokens.
#include <array>

#include "engine/tokenizer/pre_tokenizer.hpp"

namespace sluice {
namespace {

using Name = std::string_view;
using Pattern = std::string_view;

// GPT-2: contractions, then letters, digits and the rest, each with one space before it.
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Llama 3: digits in groups of three, one character other than a space may lead a word.
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Qwen 2: as Llama 3, with single digits.
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Qwen 3.5: as Qwen 2, with marks counted as letters.
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kBailing = R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}|)"
                                      R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";

// Tekken: words are cut before a capital that follows a small letter.
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// GPT-4o: as Tekken, with contractions kept on the word and digits in groups of three.
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kBloom =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{0964}\x{06D4}\x{060C})]+)";

// DeepSeek LLM: words of letters that have case, as that set stood when it was trained.
constexpr std::string_view kCasedWord =
    R"(\s?[)"
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386})"
    R"(\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA})"
    R"(\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D})"
    R"(\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4})"
    R"(\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3})"
    R"(\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D})"
    R"(\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184})"
    R"(\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"
    R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})"
    R"(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)";

constexpr std::array kGpt2Patterns = {Pattern(kGpt2)};
constexpr std::array kLlama3Patterns = {Pattern(kLlama3)};
constexpr std::array kQwen2Patterns = {Pattern(kQwen2)};
constexpr std::array kQwen35Patterns = {Pattern(kQwen35)};
constexpr std::array kSeedCoderPatterns = {Pattern(kSeedCoder)};
constexpr std::array kBailingPatterns = {Pattern(kBailing)};
constexpr std::array kTekkenPatterns = {Pattern(kTekken)};
constexpr std::array kGpt4oPatterns = {Pattern(kGpt4o)};
constexpr std::array kBloomPatterns = {Pattern(kBloom)};
constexpr std::array kVikingPatterns = {Pattern(kBloom), Pattern(R"(\p{N})")};
constexpr std::array kDigitPatterns = {Pattern(R"(\p{N})"), Pattern(kGpt2)};
constexpr std::array kFalconPatterns = {Pattern(R"([\p{P}$+<=>^~|`]+)"), Pattern(kGpt2),
                                        Pattern(R"([0-9][0-9][0-9])")};
constexpr std::array kDefaultPatterns = {Pattern(R"([\p{P}$+<=>^~|]+)"), Pattern(kGpt2),
                                         Pattern(R"(\p{N}+)"), Pattern(R"([0-9][0-9][0-9])")};
constexpr std::array kDeepseekLlmPatterns = {
    Pattern(R"([\r\n])"),
    Pattern(kCasedWord),
    Pattern(R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)"),
    Pattern(R"(\s+$)"),
    Pattern(R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"),
    Pattern(R"(\p{N}+)")};
constexpr std::array kDeepseekCoderPatterns = {
    Pattern(R"([\r\n])"), Pattern(R"(\s?\p{L}+)"), Pattern(R"(\s?\p{P}+)"),
    Pattern(R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"), Pattern(R"(\p{N})")};
constexpr std::array kDeepseekV3Patterns = {
    Pattern(R"(\p{N}{1,3})"), Pattern(R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"),
    Pattern(R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
            R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
            R"(\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array kSuperPatterns = {Pattern(R"(\p{N}+)"), Pattern(R"((?=(\d{3})+(?!\d)))")};
constexpr std::array kChameleonPatterns = {
    Pattern(R"(<sentinel:[0-9]+>)"),    Pattern(R"((IMGIMG)([A-I]{1,4})Z)"),
    Pattern(R"([\t\n]|    |  )"),       Pattern(R"(\p{N})"),
    Pattern(R"([\p{P}!-/:-@\[-`{-~])"), Pattern(kGpt2)};

constexpr std::array kDefaultNames = {Name("default")};
constexpr std::array kGpt2Names = {
    Name("gpt-2"),      Name("phi-2"),       Name("mpt"),        Name("olmo"),
    Name("jais"),       Name("trillion"),    Name("exaone4"),    Name("granite-docling"),
    Name("gigachat"),   Name("roberta-bpe"), Name("jina-es"),    Name("jina-de"),
    Name("jina-v1-en"), Name("jina-v2-es"),  Name("jina-v2-de"), Name("a.x-4.0"),
    Name("mellum"),     Name("modern-bert")};
constexpr std::array kLlama3Names = {Name("llama-bpe"), Name("llama3"),    Name("llama-v3"),
                                     Name("falcon3"),   Name("falcon-h1"), Name("pixtral"),
                                     Name("midm-2.0"),  Name("lfm2")};
constexpr std::array kLlama3MergedNames = {Name("dbrx"), Name("smaug-bpe"), Name("glm4"),
                                           Name("chatglm-bpe")};
constexpr std::array kQwen2Names = {Name("qwen2"), Name("deepseek-r1-qwen")};
constexpr std::array kLikeQwen2Names = {Name("megrez"), Name("stablelm2"), Name("hunyuan"),
                                        Name("grok-2")};
constexpr std::array kQwen35Names = {Name("qwen35")};
constexpr std::array kDigitNames = {Name("starcoder"), Name("refact"),    Name("command-r"),
                                    Name("smollm"),    Name("codeshell"), Name("exaone"),
                                    Name("minerva-7b")};
constexpr std::array kFalconNames = {Name("falcon")};
constexpr std::array kDeepseekLlmNames = {Name("deepseek-llm")};
constexpr std::array kDeepseekCoderNames = {Name("deepseek-coder")};
constexpr std::array kDeepseekV3Names = {Name("deepseek-v3"), Name("hunyuan-dense")};
constexpr std::array kTekkenNames = {Name("tekken")};
constexpr std::array kGpt4oNames = {Name("gpt-4o"), Name("llama4"), Name("minimax-m2"),
                                    Name("kanana2")};
constexpr std::array kBloomNames = {Name("bloom"), Name("poro-chat"), Name("gpt3-finnish")};
constexpr std::array kVikingNames = {Name("viking")};
constexpr std::array kSuperNames = {Name("superbpe")};
constexpr std::array kBailingNames = {Name("bailingmoe"), Name("bailingmoe2"), Name("llada-moe")};
constexpr std::array kSeedCoderNames = {Name("seed-coder")};
constexpr std::array kChameleonNames = {Name("chameleon")};

constexpr PreTokenizerRules kRules[] = {
    {kDefaultNames, kDefaultPatterns},
    {kGpt2Names, kGpt2Patterns},
    {kLlama3Names, kLlama3Patterns, true, true},
    {kLlama3MergedNames, kLlama3Patterns},
    {kQwen2Names, kQwen2Patterns, false, false, true},
    {kLikeQwen2Names, kQwen2Patterns},
    {kQwen35Names, kQwen35Patterns, false, false, true},
    {kDigitNames, kDigitPatterns},
    {kFalconNames, kFalconPatterns},
    {kDeepseekLlmNames, kDeepseekLlmPatterns},
    {kDeepseekCoderNames, kDeepseekCoderPatterns},
    {kDeepseekV3Names, kDeepseekV3Patterns},
    {kTekkenNames, kTekkenPatterns, true, true},
    {kGpt4oNames, kGpt4oPatterns},
    {kBloomNames, kBloomPatterns},
    {kVikingNames, kVikingPatterns},
    {kSuperNames, kSuperPatterns},
    {kBailingNames, kBailingPatterns},
    {kSeedCoderNames, kSeedCoderPatterns},
    {kChameleonNames, kChameleonPatterns, false, true},
};

}  // namespace

const PreTokenizerRules* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizerRules& rules : kRules) {
    for (const std::string_view known : rules.names) {
      if (known == name) return &rules;
    }
  }
  return nullptr;
}

std::span<const PreTokenizerRules> all_pre_tokenizers() {
  return kRules;
}

std::string known_pre_tokenizers() {
  std::string list;
  for (const PreTokenizerRules& rules : kRules) {
    for (const std::string_view name : rules.names) {
      if (!list.empty()) list += ", ";
      list += name;
    }
  }
  return list;
}

}  // namespace sluice
