#include "engine/chat/jinja/value.hpp"

#include <algorithm>
#include <cmath>

#include "engine/chat/jinja/failure.hpp"

namespace sluice::jinja {

namespace {

/// Equality without a budget, for dict keys: hashable values only, so never deep and never large.
bool keys_equal(const Value& a, const Value& b);

bool numbers_equal(const Value& a, const Value& b) {
  if (a.is_float() || b.is_float()) return a.as_double() == b.as_double();
  return a.as_int() == b.as_int();
}

/// Equality of everything that is not a container; false for values of different kinds.
bool plain_equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return numbers_equal(a, b);
  if (a.storage().index() != b.storage().index()) return false;
  if (a.is_text()) return a.bytes() == b.bytes();
  if (a.is_big_integer()) return a.as_big_integer().digits == b.as_big_integer().digits;
  if (a.is_none() || a.is_undefined()) return true;
  return a.storage() == b.storage();  // the same object
}

bool keys_equal(const Value& a, const Value& b) {
  if (a.is_sequence(SequenceType::kTuple) && b.is_sequence(SequenceType::kTuple)) {
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                      keys_equal);
  }
  return plain_equal(a, b);
}

std::size_t hash_bytes(std::string_view bytes) {
  return std::hash<std::string_view>{}(bytes);
}

std::size_t hash_key(const Value& key) {
  if (key.is_text()) return hash_bytes(key.bytes());
  if (key.is_integral()) return std::hash<std::int64_t>{}(key.as_int());
  if (key.is_float()) {
    const double number = key.as_double();
    if (number == std::floor(number) && std::abs(number) < 9e18) {
      return std::hash<std::int64_t>{}(static_cast<std::int64_t>(number));
    }
    return std::hash<double>{}(number);
  }
  if (key.is_sequence(SequenceType::kTuple)) {
    std::size_t hash = 0x9e3779b97f4a7c15U;
    for (const Value& item : key.items()) hash = hash * 1099511628211U + hash_key(item);
    return hash;
  }
  if (key.is_big_integer()) return hash_bytes(key.as_big_integer().digits);
  if (key.is_dict() || (key.is_sequence() && !key.is_sequence(SequenceType::kRange))) {
    type_error("unhashable type: '" + key.type_name() + "'");
  }
  return key.storage().index();
}

std::shared_ptr<const Text> make_text(std::string_view bytes, bool untrusted) {
  Text text;
  text.bytes = bytes;
  if (untrusted && !bytes.empty()) text.untrusted.push_back({0, bytes.size()});
  return std::make_shared<const Text>(std::move(text));
}

}  // namespace

void add_to_measure(Measure& container, const Measure& item) {
  container.depth = std::max(container.depth, item.depth + 1);
  container.weight += item.weight;
  if (container.depth > kMaxValueDepth || container.weight > kMaxValueWeight) {
    throw Failure(FailureKind::kLimit, "a list or dict is nested too deep or too large");
  }
}

const Value* Dict::find(const Value& key) const {
  const std::size_t at = position(key, hash_key(key));
  return at < entries_.size() ? &entries_[at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const auto matches = [&](const Entry& entry) {
    return entry.first.is_text() && entry.first.bytes() == key;
  };
  if (index_.empty()) {
    const auto entry = std::find_if(entries_.begin(), entries_.end(), matches);
    return entry != entries_.end() ? &entry->second : nullptr;
  }
  auto [candidate, last] = index_.equal_range(hash_bytes(key));
  for (; candidate != last; ++candidate) {
    if (matches(entries_[candidate->second])) return &entries_[candidate->second].second;
  }
  return nullptr;
}

void Dict::set(Value key, Value value) {
  const std::size_t hash = hash_key(key);
  const std::size_t at = position(key, hash);
  if (at < entries_.size()) {
    measure_.depth = std::max(measure_.depth, value.measure().depth + 1);
    entries_[at].second = std::move(value);
    return;
  }
  add_to_measure(measure_, key.measure());
  add_to_measure(measure_, value.measure());
  entries_.emplace_back(std::move(key), std::move(value));
  if (!index_.empty()) {
    index_.emplace(hash, at);
  } else if (entries_.size() >= kIndexedFrom) {
    index_all();
  }
}

bool Dict::erase(const Value& key) {
  const std::size_t at = position(key, hash_key(key));
  if (at >= entries_.size()) return false;
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(at));
  index_.clear();
  if (entries_.size() >= kIndexedFrom) index_all();
  return true;
}

void Dict::clear() {
  entries_.clear();
  index_.clear();
}

std::size_t Dict::position(const Value& key, std::size_t hash) const {
  if (index_.empty()) {
    std::size_t at = 0;
    while (at < entries_.size() && !keys_equal(entries_[at].first, key)) ++at;
    return at;
  }
  auto [candidate, last] = index_.equal_range(hash);
  for (; candidate != last; ++candidate) {
    if (keys_equal(entries_[candidate->second].first, key)) return candidate->second;
  }
  return entries_.size();
}

void Dict::index_all() {
  for (std::size_t at = 0; at < entries_.size(); ++at) {
    index_.emplace(hash_key(entries_[at].first), at);
  }
}

Namespace::Namespace() = default;
Namespace::~Namespace() = default;

const Value* Namespace::find(std::string_view name) const {
  const auto found = std::find_if(attributes_.begin(), attributes_.end(),
                                  [&](const auto& attribute) { return attribute.first == name; });
  return found != attributes_.end() ? &found->second : nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  const auto found = std::find_if(attributes_.begin(), attributes_.end(),
                                  [&](const auto& attribute) { return attribute.first == name; });
  if (found != attributes_.end()) {
    found->second = std::move(value);
  } else {
    attributes_.emplace_back(name, std::move(value));
  }
}

Value Value::big_integer(std::string digits) {
  return Value(Storage(std::make_shared<const BigInteger>(BigInteger{std::move(digits)})));
}

Value Value::undefined(std::string message, bool unsafe) {
  return Value(Storage(std::make_shared<const Undefined>(Undefined{std::move(message), unsafe})));
}

Value Value::text(std::string_view bytes) {
  return text(make_text(bytes, false));
}

Value Value::untrusted_text(std::string_view bytes) {
  return text(make_text(bytes, true));
}

Value Value::sequence(SequenceType type, std::vector<Value> items) {
  auto sequence = std::make_shared<Sequence>();
  sequence->type = type;
  sequence->measure.depth = 1;
  for (const Value& item : items) add_to_measure(sequence->measure, item.measure());
  sequence->items = std::move(items);
  return Value(Storage(std::move(sequence)));
}

bool Value::truthy() const {
  if (is_none() || is_undefined()) return false;
  if (is_integral()) return as_int() != 0;
  if (is_float()) return as_double() != 0.0;
  if (is_text()) return !bytes().empty();
  if (is_sequence(SequenceType::kIterator)) return true;
  if (is_sequence()) return !items().empty();
  if (is_dict()) return as_dict().size() != 0;
  return true;
}

Measure Value::measure() const {
  if (is_sequence()) return as_sequence().measure;
  if (is_dict()) return {std::max(as_dict().measure().depth, 1U), as_dict().measure().weight};
  if (is_callable()) return as_callable().measure;
  if (is_object()) return as_object().measure();
  return {};
}

std::string Value::type_name() const {
  if (is_none()) return "NoneType";
  if (is_undefined()) return "Undefined";
  if (is_bool()) return "bool";
  if (is_int() || is_big_integer()) return "int";
  if (is_float()) return "float";
  if (is_text()) return as_text().escaped ? "Markup" : "str";
  if (is_dict()) return "dict";
  if (is_namespace()) return "Namespace";
  if (is_object()) return as_object().type_name();
  if (is_callable()) return as_callable().is_macro ? "Macro" : "function";
  switch (as_sequence().type) {
    case SequenceType::kList:
      return "list";
    case SequenceType::kTuple:
      return "tuple";
    case SequenceType::kRange:
      return "range";
    case SequenceType::kDictKeys:
      return "dict_keys";
    case SequenceType::kDictValues:
      return "dict_values";
    case SequenceType::kDictItems:
      return "dict_items";
    case SequenceType::kIterator:
      return "generator";
  }
  return "object";
}

bool equals(Budget& budget, const Value& a, const Value& b) {
  const Budget::Level level(budget);
  budget.work(8);
  if (a.is_text() && b.is_text()) {
    if (a.bytes().size() != b.bytes().size()) return false;
    budget.work(a.bytes().size() / 16);
    return a.bytes() == b.bytes();
  }
  if (a.is_dict() && b.is_dict()) {
    if (a.as_dict().size() != b.as_dict().size()) return false;
    return std::all_of(a.as_dict().entries().begin(), a.as_dict().entries().end(),
                       [&](const Dict::Entry& entry) {
                         budget.work(entry.first.is_text() ? entry.first.bytes().size()
                                                           : entry.first.measure().weight);
                         const Value* other = b.as_dict().find(entry.first);
                         return other != nullptr && equals(budget, entry.second, *other);
                       });
  }
  if (a.is_sequence() && b.is_sequence()) {
    const Sequence& left = a.as_sequence();
    const Sequence& right = b.as_sequence();
    const bool by_identity =
        left.type == SequenceType::kIterator || left.type == SequenceType::kDictValues;
    if (left.type != right.type || by_identity) return &left == &right;
    return std::equal(left.items.begin(), left.items.end(), right.items.begin(), right.items.end(),
                      [&](const Value& x, const Value& y) { return equals(budget, x, y); });
  }
  return plain_equal(a, b);
}

Value deep_copy(const Value& value) {
  if (value.is_sequence()) {
    std::vector<Value> items;
    items.reserve(value.items().size());
    for (const Value& item : value.items()) items.push_back(deep_copy(item));
    return Value::sequence(value.as_sequence().type, std::move(items));
  }
  if (value.is_dict()) {
    Dict copy;
    for (const auto& [key, item] : value.as_dict().entries()) copy.set(key, deep_copy(item));
    return Value::dict(std::move(copy));
  }
  return value;
}

}  // namespace sluice::jinja
