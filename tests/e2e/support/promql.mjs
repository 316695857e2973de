// Reads PromQL with Prometheus' own grammar, as far as a check of names needs it.

import { parser } from '@prometheus-io/lezer-promql';

const kCounterFunctions = new Set(['Rate', 'Irate', 'Increase', 'Resets']);

/// What a query asks for: [{name, labels, counted}], where `counted` says that a function for
/// counters is applied, and the labels are those of its matchers and of the groupings around it.
/// Throws with the place when it is no PromQL.
export function selectorsOf(query) {
  const found = [];
  const text = (node) => query.slice(node.from, node.to);
  parser.parse(query).iterate({
    enter(node) {
      if (node.type.isError) throw new Error(`not PromQL at ${node.from}: ${query}`);
      if (node.name !== 'VectorSelector') return;
      const name = node.node.getChild('Identifier');
      const selector = { name: name ? text(name) : '', labels: new Set(), counted: false };
      for (const label of namesIn(node.node, ['LabelName', 'QuotedLabelName'])) selector.labels.add(text(label));
      for (let above = node.node.parent; above; above = above.parent) {
        if (above.name === 'AggregateExpr') {
          const grouping = namesIn(above, ['LabelName'], ['FunctionCallBody']);
          for (const label of grouping) selector.labels.add(text(label));
        }
        if (above.name === 'FunctionCall') {
          selector.counted ||= [...kCounterFunctions].some((name) => above.getChild('FunctionIdentifier')?.getChild(name));
        }
      }
      found.push(selector);
    },
  });
  return found;
}

function namesIn(node, wanted, skipped = []) {
  const found = [];
  node.cursor().iterate((inner) => {
    if (skipped.includes(inner.name)) return false;
    if (wanted.includes(inner.name)) found.push(inner.node);
    return true;
  });
  return found;
}

/// The families of a /metrics page: name -> {type, labels, series: names of its samples}.
export function familiesOf(page) {
  const families = new Map();
  let family;
  for (const line of page.split('\n')) {
    const type = line.match(/^# TYPE (\S+) (\S+)$/);
    if (type) {
      family = { type: type[2], labels: new Set(), series: new Set() };
      families.set(type[1], family);
    } else if (line && !line.startsWith('#')) {
      family.series.add(line.match(/^[a-zA-Z0-9_:]+/)[0]);
      for (const [, label] of line.matchAll(/[{,]([a-zA-Z_]+)="/g)) family.labels.add(label);
    }
  }
  return families;
}
