// sluice render: conversations to prompts by a chat template, one JSON object a line.
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "app/commands.hpp"
#include "app/json_lines.hpp"
#include "engine/base/error.hpp"
#include "engine/chat/jinja/json_value.hpp"
#include "engine/chat/jinja/template.hpp"
#include "engine/chat/template_text.hpp"

namespace sluice::app {
namespace {

struct Options {
  std::filesystem::path source;
  std::string name;
  std::string now;
  bool relaxed = false;
};

/// "2026-01-02T03:04:05", or the date alone.
std::tm parse_time(const std::string& text) {
  std::tm time{};
  const char* end = strptime(text.c_str(), "%Y-%m-%d", &time);
  if (end != nullptr && (*end == 'T' || *end == ' ')) end = strptime(end + 1, "%H:%M:%S", &time);
  if (end == nullptr || *end != '\0') {
    throw Error(ErrorCode::kInvalidArgument,
                "The time \"" + text + "\" does not read like 2026-01-02T03:04:05.");
  }
  time.tm_isdst = -1;
  std::mktime(&time);  // fills in the day of the week and of the year
  return time;
}

jinja::Value read_line_value(std::string_view line) {
  try {
    return jinja::value_from_json(line, false);
  } catch (const jinja::Failure& failure) {
    throw Error(ErrorCode::kInvalidArgument, std::string("The line is ") + failure.what() + ".");
  }
}

/// An error keeps the template's own words where the template itself refused.
void write_error(const jinja::TemplateError& error, JsonWriter& answer) {
  const bool raised = error.kind() == jinja::FailureKind::kRaised;
  answer.field("error", raised ? error.reason() : std::string(error.what()));
  answer.field("line", error.line());
}

int render(const Options& options) {
  const std::string text = read_template_text(options.source, options.name);
  const jinja::Template parsed = jinja::Template::parse(text, options.source.filename().string());
  jinja::RenderOptions settings;
  settings.relaxed = options.relaxed;
  if (!options.now.empty()) settings.now = parse_time(options.now);

  return answer_lines(std::cin, std::cout, [&](std::string_view line, JsonWriter& answer) {
    const jinja::Value object = read_line_value(line);
    const jinja::Value* context = object.is_dict() ? object.as_dict().find("context") : nullptr;
    if (context == nullptr || !context->is_dict()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "The member \"context\" is missing; it must be an object.");
    }
    try {
      answer.field("text", parsed.render(*context, settings).text);
    } catch (const jinja::TemplateError& error) {
      write_error(error, answer);
    }
  });
}

}  // namespace

void add_render_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("render", "Turn conversations into prompts, line by line");
  command
      ->add_option("TEMPLATE", options->source,
                   "A .jinja file, a GGUF with a chat template, a Hugging Face folder, or a "
                   "tokenizer_config.json")
      ->required();
  command->add_option("--name", options->name,
                      "Which template, where the model has several, e.g. tool_use");
  command->add_option("--now", options->now,
                      "What strftime_now shows, e.g. 2026-01-02T03:04:05. Default: the local time");
  command->add_flag("--relaxed", options->relaxed,
                    "Let templates change lists and dicts and use from_json, as chats do");
  command->footer(
      "Reads one JSON object a line from stdin and writes one a line to stdout:\n"
      "  {\"context\": {\"messages\": [...], ...}}  ->  {\"text\"}\n"
      "The context is all that the template sees: pass add_generation_prompt, bos_token, tools "
      "and\n"
      "so on in it. A template that fails gives {\"error\", \"line\"}; the next line is read all\n"
      "the same.\n\nExample:\n"
      "  echo '{\"context\":{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
      "\"add_generation_prompt\":true}}' \\\n    | sluice render model.gguf");
  command->callback([options, &action] { action = [options] { return render(*options); }; });
}

}  // namespace sluice::app
