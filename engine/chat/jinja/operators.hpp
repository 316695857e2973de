// Arithmetic, comparison and membership, with Python's rules and messages.
#pragma once

#include "engine/chat/jinja/ast.hpp"
#include "engine/chat/jinja/value.hpp"

namespace sluice::jinja {

Value apply_binary(Interpreter& interpreter, BinaryOp op, const Value& left, const Value& right);
bool apply_compare(Interpreter& interpreter, CompareOp op, const Value& left, const Value& right);
Value negate(const Value& value);
/// left < right; throws Failure(kType) for values without an order.
bool less_than(Interpreter& interpreter, const Value& left, const Value& right);
/// item in container.
bool contains(Interpreter& interpreter, const Value& container, const Value& item);
/// `text` with & < > ' " as HTML entities.
TextPtr escape_html(Budget& budget, const Text& text);

}  // namespace sluice::jinja
