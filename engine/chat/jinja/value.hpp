// The values a template works with. They behave like Python's, because chat templates are written
// for Python: integers and floats are different but compare equal, dicts keep insertion order,
// lists and dicts are shared by reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "engine/chat/jinja/text.hpp"

namespace sluice::jinja {

class Value;
class Interpreter;
struct Arguments;

/// What is behind a name that does not exist. Using it throws `message`; printing it gives "".
struct Undefined {
  std::string message;
  bool unsafe = false;  ///< exists in Python, but the sandbox hides it
};

/// An integer outside of 64 bits, as its decimal digits. It can be printed and compared.
struct BigInteger {
  std::string digits;  ///< "-" first when negative, no leading zeros
};

enum class SequenceType : std::uint8_t {
  kList,
  kTuple,
  kRange,
  kDictKeys,
  kDictValues,
  kDictItems,
  kIterator,  ///< what filters such as `map` return: can be walked once, has no length
};

/// How deep and how large values may nest; checked whenever one is built, so that no walk over a
/// value can run out of stack.
inline constexpr std::uint32_t kMaxValueDepth = 200;
inline constexpr std::uint64_t kMaxValueWeight = 20'000'000;

struct Measure {
  std::uint32_t depth = 0;   ///< 0 for plain values, 1 + the deepest item for containers
  std::uint64_t weight = 1;  ///< plain values inside, counted once per path
};

struct Sequence {
  SequenceType type = SequenceType::kList;
  std::vector<Value> items;
  std::size_t next = 0;               ///< kIterator: first item not given out yet
  std::int64_t range[3] = {0, 0, 0};  ///< kRange: start, stop, step
  Measure measure;
};

/// Insertion-ordered map with Python's idea of equal keys: 1, 1.0 and true are one key.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t size() const;
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  /// Replaces the value of an equal key (which stays as it was) or appends. Throws for an
  /// unhashable key and for values that nest too deep.
  void set(Value key, Value value);
  bool erase(const Value& key);
  void clear();
  const Measure& measure() const { return measure_; }

 private:
  static constexpr std::size_t kIndexedFrom = 9;  ///< smaller ones are searched in order
  std::size_t position(const Value& key, std::size_t hash) const;
  void index_all();

  std::vector<Entry> entries_;
  std::unordered_multimap<std::size_t, std::size_t> index_;  ///< hash to position
  Measure measure_;
};

/// The object behind namespace(...): the only thing whose attributes a template may set.
class Namespace {
 public:
  Namespace();
  ~Namespace();
  Namespace(const Namespace&) = delete;
  Namespace& operator=(const Namespace&) = delete;
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
  void clear();

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

/// The object behind `loop`, cycler(...) and other things with attributes of their own.
class Object {
 public:
  virtual ~Object() = default;
  /// Python's name of the type, e.g. "LoopContext".
  virtual std::string type_name() const = 0;
  /// False when there is no such attribute.
  virtual bool attribute(Interpreter& interpreter, std::string_view name, Value& result) = 0;
  /// Null when it cannot be called.
  virtual const std::function<Value(Interpreter&, const Arguments&)>* callable() const {
    return nullptr;
  }
  virtual Measure measure() const { return {1, 1}; }
  /// Lets go of all values; see Interpreter::keep.
  virtual void release() {}
};

/// A function, macro or bound method.
struct Callable {
  std::string name;
  std::function<Value(Interpreter&, const Arguments&)> call;
  Measure measure;
  bool is_macro = false;
};

class Value {
 public:
  using Storage =
      std::variant<std::monostate, std::shared_ptr<const Undefined>, bool, std::int64_t, double,
                   std::shared_ptr<const BigInteger>, TextPtr, std::shared_ptr<Sequence>,
                   std::shared_ptr<Dict>, std::shared_ptr<Namespace>, std::shared_ptr<Object>,
                   std::shared_ptr<const Callable>>;

  Value() = default;  ///< none
  static Value boolean(bool flag) { return Value(Storage(flag)); }
  static Value integer(std::int64_t number) { return Value(Storage(number)); }
  static Value real(double number) { return Value(Storage(number)); }
  static Value big_integer(std::string digits);
  static Value undefined(std::string message, bool unsafe = false);
  /// A trusted text.
  static Value text(std::string_view bytes);
  /// A text that a user typed or a tool returned.
  static Value untrusted_text(std::string_view bytes);
  static Value text(TextPtr text) { return Value(Storage(std::move(text))); }
  static Value list(std::vector<Value> items) {
    return sequence(SequenceType::kList, std::move(items));
  }
  static Value tuple(std::vector<Value> items) {
    return sequence(SequenceType::kTuple, std::move(items));
  }
  static Value sequence(SequenceType type, std::vector<Value> items);
  static Value dict(Dict entries) { return Value(std::make_shared<Dict>(std::move(entries))); }
  static Value dict(std::shared_ptr<Dict> entries) { return Value(Storage(std::move(entries))); }
  static Value namespace_object(std::shared_ptr<Namespace> object) {
    return Value(Storage(std::move(object)));
  }
  static Value object(std::shared_ptr<Object> object) { return Value(Storage(std::move(object))); }
  static Value callable(std::shared_ptr<const Callable> function) {
    return Value(Storage(std::move(function)));
  }
  explicit Value(Storage storage) : storage_(std::move(storage)) {}

  bool is_none() const { return holds<std::monostate>(); }
  bool is_undefined() const { return holds<std::shared_ptr<const Undefined>>(); }
  bool is_bool() const { return holds<bool>(); }
  bool is_int() const { return holds<std::int64_t>(); }
  bool is_float() const { return holds<double>(); }
  bool is_big_integer() const { return holds<std::shared_ptr<const BigInteger>>(); }
  bool is_text() const { return holds<TextPtr>(); }
  bool is_sequence() const { return holds<std::shared_ptr<Sequence>>(); }
  bool is_sequence(SequenceType type) const { return is_sequence() && as_sequence().type == type; }
  bool is_dict() const { return holds<std::shared_ptr<Dict>>(); }
  bool is_namespace() const { return holds<std::shared_ptr<Namespace>>(); }
  bool is_object() const { return holds<std::shared_ptr<Object>>(); }
  bool is_callable() const { return holds<std::shared_ptr<const Callable>>(); }
  /// bool, int or float.
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  /// bool or int.
  bool is_integral() const { return is_bool() || is_int(); }

  const Undefined& as_undefined() const { return *get<std::shared_ptr<const Undefined>>(); }
  bool as_bool() const { return get<bool>(); }
  std::int64_t as_int() const {
    return is_bool() ? std::int64_t{get<bool>()} : get<std::int64_t>();
  }
  double as_double() const { return is_float() ? get<double>() : static_cast<double>(as_int()); }
  const BigInteger& as_big_integer() const { return *get<std::shared_ptr<const BigInteger>>(); }
  const Text& as_text() const { return *get<TextPtr>(); }
  const TextPtr& text_ptr() const { return get<TextPtr>(); }
  const std::string& bytes() const { return as_text().bytes; }
  Sequence& as_sequence() const { return *get<std::shared_ptr<Sequence>>(); }
  const std::vector<Value>& items() const { return as_sequence().items; }
  Dict& as_dict() const { return *get<std::shared_ptr<Dict>>(); }
  Namespace& as_namespace() const { return *get<std::shared_ptr<Namespace>>(); }
  Object& as_object() const { return *get<std::shared_ptr<Object>>(); }
  const Callable& as_callable() const { return *get<std::shared_ptr<const Callable>>(); }
  const Storage& storage() const { return storage_; }

  bool truthy() const;
  Measure measure() const;
  /// Python's name of the type: "str", "int", "NoneType", "dict_items".
  std::string type_name() const;

 private:
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(storage_);
  }
  template <class T>
  const T& get() const {
    return std::get<T>(storage_);
  }
  Storage storage_;
};

// These look into pairs of values, which are complete only here.
inline std::size_t Dict::size() const {
  return entries_.size();
}
inline void Namespace::clear() {
  attributes_.clear();
}

/// What a call passes.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

/// Adds one item to the measure of a container; throws Failure(kLimit) when it gets too large.
void add_to_measure(Measure& container, const Measure& item);

/// ==, with Python's rules. Counts its work.
bool equals(Budget& budget, const Value& a, const Value& b);

/// Copies containers all the way down, so that the copy can be changed. Texts are shared.
Value deep_copy(const Value& value);

}  // namespace sluice::jinja
