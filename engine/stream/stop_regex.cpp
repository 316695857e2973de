#include "engine/stream/stop_regex.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/stream/stop_regex_parser.hpp"
#include "engine/stream/utf8_accumulator.hpp"

namespace sluice {
namespace {

using Op = StopProgram::Op;
using State = StopProgram::State;

/// Writes the states of one pattern, from its end to its start, so that a state's ways lead to
/// earlier states, except into the body of a repetition.
class Compiler {
 public:
  Compiler(const RegexTree& tree, StopProgram& program)
      : tree_(tree), program_(program), first_set_(static_cast<std::int32_t>(program.sets.size())) {
    program_.sets.insert(program_.sets.end(), tree.sets.begin(), tree.sets.end());
  }

  /// Returns the state where the node begins; it goes on at `next`.
  std::int32_t node(std::int32_t index, std::int32_t next) {
    const RegexNode& node = tree_.nodes[static_cast<std::size_t>(index)];
    switch (node.kind) {
      case RegexNode::Kind::kEmpty:
        return next;
      case RegexNode::Kind::kChars:
        return add({Op::kChars, next, first_set_ + node.set});
      case RegexNode::Kind::kLineStart:
        return add({Op::kLineStart, next, 0});
      case RegexNode::Kind::kSequence:
        for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part) {
          next = this->node(*part, next);
        }
        return next;
      case RegexNode::Kind::kChoice: {
        std::int32_t way = this->node(node.parts.back(), next);
        for (auto part = node.parts.rbegin() + 1; part != node.parts.rend(); ++part) {
          way = add({Op::kSplit, this->node(*part, next), way});
        }
        return way;
      }
      case RegexNode::Kind::kRepeat:
        return repeat(node, next);
    }
    return next;
  }

  std::int32_t add(State state) {
    if (program_.states.size() >= kMaxStopPatternStates) {
      throw Error(ErrorCode::kInvalidArgument,
                  "is too large, with those before it: use shorter patterns or repetitions.");
    }
    program_.states.push_back(state);
    return static_cast<std::int32_t>(program_.states.size() - 1);
  }

 private:
  /// x{2,4} is xx(x(x)?)?, and x{2,} is xxx*.
  std::int32_t repeat(const RegexNode& node, std::int32_t next) {
    const std::int32_t body = node.parts[0];
    const std::int32_t end = next;
    if (node.max == RegexNode::kUnlimited) {
      const std::int32_t loop = add({Op::kSplit, next, next});
      const std::int32_t inside = this->node(body, loop);
      program_.states[static_cast<std::size_t>(loop)].next = inside == loop ? next : inside;
      next = loop;
    } else {
      for (std::int32_t i = node.min; i < node.max; ++i) {
        const std::int32_t inside = this->node(body, next);
        if (inside == next) break;  // an empty body stays empty, however often
        next = add({Op::kSplit, inside, end});
      }
    }
    for (std::int32_t i = 0; i < node.min; ++i) {
      const std::int32_t inside = this->node(body, next);
      if (inside == next) break;
      next = inside;
    }
    return next;
  }

  const RegexTree& tree_;
  StopProgram& program_;
  std::int32_t first_set_;
};

/// Bytes of the shortest character of `set` that is no line feed.
std::size_t shortest_other(const CodePointSet& set) {
  std::size_t shortest = StopProgram::kNever;
  for (CodePointRange range : set.ranges()) {
    if (range.first == '\n') ++range.first;
    if (range.first <= range.last) shortest = std::min(shortest, utf8_size(range.first));
  }
  return shortest;
}

/// Shortest ways through the automaton: sums are lowered until they no longer change.
void find_needs(StopProgram& program) {
  program.needs.assign(program.states.size(), {StopProgram::kNever, StopProgram::kNever});
  std::vector<std::size_t> shortest;
  for (const CodePointSet& set : program.sets) shortest.push_back(shortest_other(set));
  const auto needs_of = [&](std::int32_t state, std::size_t at_line_start) {
    return program.needs[static_cast<std::size_t>(state)][at_line_start];
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < program.states.size(); ++i) {
      const State& state = program.states[i];
      for (const std::size_t at_line_start : {0U, 1U}) {
        std::size_t need = StopProgram::kNever;
        switch (state.op) {
          case Op::kAccept:
            need = 0;
            break;
          case Op::kLineStart:
            if (at_line_start == 1) need = needs_of(state.next, 1);
            break;
          case Op::kSplit:
            need = std::min(needs_of(state.next, at_line_start),
                            needs_of(state.operand, at_line_start));
            break;
          case Op::kChars: {
            const auto set = static_cast<std::size_t>(state.operand);
            need = shortest[set] + needs_of(state.next, 0);
            if (program.sets[set].has('\n')) need = std::min(need, 1 + needs_of(state.next, 1));
            break;
          }
        }
        need = std::min(need, StopProgram::kNever);
        changed = changed || need < program.needs[i][at_line_start];
        program.needs[i][at_line_start] = std::min(program.needs[i][at_line_start], need);
      }
    }
  }
}

void check_text(const StopPattern& pattern) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::kInvalidArgument, what);
  };
  if (pattern.pattern.empty()) refuse("is empty; leave it out.");
  if (pattern.pattern.size() > kMaxStopPatternBytes) {
    refuse("has " + std::to_string(pattern.pattern.size()) + " bytes; at most " +
           std::to_string(kMaxStopPatternBytes) + " are possible.");
  }
  if (!is_valid_utf8(pattern.pattern)) refuse("is not valid UTF-8; text never matches it.");
}

void check_matches(const StopProgram& program, std::int32_t start) {
  const auto [elsewhere, at_line_start] = program.needs[static_cast<std::size_t>(start)];
  if (std::min(elsewhere, at_line_start) == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "matches the empty text, which is everywhere; make a part of it obligatory.");
  }
  if (at_line_start >= StopProgram::kNever) {
    throw Error(ErrorCode::kInvalidArgument, "can never match.");
  }
  if (at_line_start > kMaxStopPatternMatch) {
    throw Error(ErrorCode::kInvalidArgument, "matches only texts of more than " +
                                                 std::to_string(kMaxStopPatternMatch) +
                                                 " bytes, which are not searched for.");
  }
}

}  // namespace

StopProgram compile_stop_patterns(std::span<const StopPattern> patterns) {
  if (patterns.size() > kMaxStopPatterns) {
    throw Error(ErrorCode::kInvalidArgument,
                "There are " + std::to_string(patterns.size()) + " stop patterns; at most " +
                    std::to_string(kMaxStopPatterns) + " are possible.");
  }
  StopProgram program;
  std::size_t number = 0;
  const auto named = [&](auto&& step) {
    try {
      step();
    } catch (const Error& error) {
      throw Error(error.code(), "Stop pattern " + std::to_string(number) + " " + error.what());
    }
  };
  for (const StopPattern& pattern : patterns) {
    ++number;
    named([&] {
      check_text(pattern);
      const RegexTree tree = parse_stop_regex(pattern.pattern);
      Compiler compiler(tree, program);
      const std::int32_t accept =
          compiler.add({Op::kAccept, 0, static_cast<std::int32_t>(number - 1)});
      program.starts.push_back(compiler.node(tree.root, accept));
    });
  }
  find_needs(program);
  for (number = 1; number <= patterns.size(); ++number) {
    named([&] { check_matches(program, program.starts[number - 1]); });
  }
  return program;
}

void check_stop_patterns(std::span<const StopPattern> patterns) {
  compile_stop_patterns(patterns);
}

}  // namespace sluice
