// Functions that templates find without being given them.
#include <array>
#include <cmath>
#include <ctime>
#include <iomanip>
#include <locale>
#include <sstream>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/arguments.hpp"
#include "engine/chat/jinja/builtins.hpp"
#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/python_format.hpp"

namespace sluice::jinja {

namespace {

using Global = Value (*)(Interpreter&, const Arguments&);

[[noreturn]] Value raise_exception(Interpreter& interpreter, const Arguments& arguments) {
  const BoundArguments bound("raise_exception", arguments, {"message"}, 1);
  throw Failure(FailureKind::kRaised, to_text(interpreter.budget(), *bound[0])->bytes);
}

/// Longer ranges are refused, as in the reference's sandbox.
constexpr std::int64_t kMaxRange = 100'000;

Value range(Interpreter& interpreter, const Arguments& arguments) {
  const auto& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.keywords.empty()) {
    type_error("range expected 1 to 3 arguments");
  }
  for (const Value& part : given) {
    require_defined(part);
    if (!part.is_integral()) {
      type_error("'" + part.type_name() + "' object cannot be interpreted as an integer");
    }
  }
  const std::int64_t start = given.size() > 1 ? given[0].as_int() : 0;
  const std::int64_t stop = given[given.size() > 1 ? 1 : 0].as_int();
  const std::int64_t step = given.size() > 2 ? given[2].as_int() : 1;
  if (step == 0) value_error("range() arg 3 must not be zero");
  // In doubles, so that no difference overflows; exact enough to compare with the limit.
  const double distance =
      (static_cast<double>(stop) - static_cast<double>(start)) / static_cast<double>(step);
  if (distance > static_cast<double>(kMaxRange)) {
    value_error("Range too big. The sandbox blocks ranges larger than " +
                std::to_string(kMaxRange) + ".");
  }
  std::vector<Value> items;
  const auto count = static_cast<std::size_t>(std::max(std::ceil(distance), 0.0));
  interpreter.budget().allocate(count * sizeof(Value));
  items.reserve(count);
  std::int64_t number = start;
  while (step > 0 ? number < stop : number > stop) {
    items.push_back(Value::integer(number));
    if (__builtin_add_overflow(number, step, &number)) break;
  }
  Value result = Value::sequence(SequenceType::kRange, std::move(items));
  result.as_sequence().range[0] = start;
  result.as_sequence().range[1] = stop;
  result.as_sequence().range[2] = step;
  return result;
}

/// The entries of a dict or of a list of pairs, then the named arguments.
Dict entries_from(Interpreter& interpreter, const Arguments& arguments) {
  Dict entries;
  const auto set = [&](const Value& key, const Value& value) {
    interpreter.budget().allocate(sizeof(Dict::Entry));
    interpreter.charge_key(key);
    entries.set(key, value);
  };
  if (arguments.positional.size() > 1) type_error("dict expected at most 1 argument");
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_dict()) {
      for (const auto& [key, value] : source.as_dict().entries()) set(key, value);
    } else {
      for (const Value& pair : iterate(interpreter, source)) {
        const std::vector<Value> parts = iterate(interpreter, pair);
        if (parts.size() != 2) value_error("a dict is made of pairs");
        set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.keywords) set(Value::text(name), value);
  return entries;
}

Value make_dict(Interpreter& interpreter, const Arguments& arguments) {
  return Value::dict(entries_from(interpreter, arguments));
}

Value make_namespace(Interpreter& interpreter, const Arguments& arguments) {
  auto object = std::make_shared<Namespace>();
  const Dict attributes = entries_from(interpreter, arguments);
  for (const auto& [key, value] : attributes.entries()) {
    if (key.is_text()) object->set(key.bytes(), value);
  }
  interpreter.budget().allocate(sizeof(Namespace));
  interpreter.keep(object);
  return Value::namespace_object(std::move(object));
}

Value function(std::string name, const Measure& measure,
               std::function<Value(Interpreter&, const Arguments&)> call) {
  auto callable = std::make_shared<Callable>();
  callable->name = std::move(name);
  callable->measure.depth = 1;
  add_to_measure(callable->measure, measure);
  callable->call = std::move(call);
  return Value::callable(std::move(callable));
}

/// cycler("a", "b"): next() gives the items in turn.
class Cycler : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(const Value& items) : items_(items) {}

  std::string type_name() const override { return "Cycler"; }
  Measure measure() const override { return items_.measure(); }
  bool attribute(Interpreter&, std::string_view name, Value& result) override {
    if (name == "current") {
      result = items_.items()[at_];
    } else if (name == "next") {
      result =
          function("next", measure(), [self = shared_from_this()](Interpreter&, const Arguments&) {
            const Value item = self->items_.items()[self->at_];
            self->at_ = (self->at_ + 1) % self->items_.items().size();
            return item;
          });
    } else if (name == "reset") {
      result =
          function("reset", measure(), [self = shared_from_this()](Interpreter&, const Arguments&) {
            self->at_ = 0;
            return Value();
          });
    } else {
      return false;
    }
    return true;
  }

 private:
  Value items_;
  std::size_t at_ = 0;
};

Value make_cycler(Interpreter&, const Arguments& arguments) {
  if (arguments.positional.empty()) type_error("at least one item has to be provided");
  return Value::object(std::make_shared<Cycler>(Value::tuple(arguments.positional)));
}

/// joiner(", "): gives "" the first time and its separator from then on.
Value make_joiner(Interpreter&, const Arguments& arguments) {
  const BoundArguments bound("joiner", arguments, {"sep"});
  const Value separator = bound[0] != nullptr ? *bound[0] : Value::text(", ");
  return function(
      "joiner", separator.measure(),
      [separator, used = std::make_shared<bool>(false)](Interpreter&, const Arguments&) {
        return std::exchange(*used, true) ? separator : Value::text("");
      });
}

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm result{};
  ::localtime_r(&now, &result);
  return result;
}

/// One specifier at a time, so that an unknown one cannot reach the C library.
Value strftime_now(Interpreter& interpreter, const Arguments& arguments) {
  static constexpr std::string_view kKnown = "aAbBcdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZC";
  const BoundArguments bound("strftime_now", arguments, {"format"}, 1);
  const std::string& format = bound.text(0)->bytes;
  const std::tm now = interpreter.options().now.value_or(local_time());
  TextBuilder out(interpreter.budget());
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 >= format.size()) {
      out.append(format.substr(at, 1));
      continue;
    }
    std::string specifier = "%";
    std::size_t next = at + 1;
    if (format[next] == '-' && next + 1 < format.size()) specifier += format[next++];
    specifier += format[next];
    at = next;
    if (format[next] == '%') {
      out.append("%");
    } else if (format[next] == 'f') {
      out.append("000000");  // microseconds
    } else if (kKnown.find(format[next]) == std::string_view::npos) {
      out.append(specifier);
    } else {
      std::ostringstream formatted;
      formatted.imbue(std::locale::classic());
      formatted << std::put_time(&now, specifier.c_str());
      out.append(formatted.str());
    }
  }
  return Value::text(out.take_shared());
}

struct NamedGlobal {
  std::string_view name;
  Global function;
};

constexpr std::array<NamedGlobal, 7> kGlobals = {{
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
    {"range", range},
    {"dict", make_dict},
    {"namespace", make_namespace},
    {"cycler", make_cycler},
    {"joiner", make_joiner},
}};

}  // namespace

Value find_global(std::string_view name) {
  for (const NamedGlobal& global : kGlobals) {
    if (global.name == name) return function(std::string(name), {}, global.function);
  }
  return Value::undefined(std::string(name));
}

}  // namespace sluice::jinja
