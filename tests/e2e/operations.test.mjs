// What is in deploy/ against the real program: every query names what is exported, every option
// exists, every number adds up.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';
import { familiesOf, selectorsOf } from './support/promql.mjs';
import { startServer, whyNot } from './support/real_server.mjs';

const kRoot = fileURLToPath(new URL('../../', import.meta.url));
const kDeploy = join(kRoot, 'deploy');
const read = (path) => readFileSync(join(kRoot, path), 'utf8');

/// What Prometheus adds to whatever it scrapes, and service discovery in Kubernetes.
const kTargetLabels = new Set(['instance', 'job', 'namespace', 'pod']);
const kOfPrometheus = new Map([['up', { type: 'gauge', labels: new Set(), series: new Set(['up']) }]]);

function filesUnder(folder) {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesUnder(path) : [path];
  });
}

function yamlOf(path) {
  const documents = parseAllDocuments(read(path), { strict: true, uniqueKeys: true });
  for (const document of documents) {
    assert.deepEqual([...document.errors, ...document.warnings].map(String), [], path);
  }
  return documents.map((document) => document.toJS());
}

/// The path of a program that is installed here, or null.
function installed(name) {
  const places = (process.env.PATH ?? '').split(':').map((folder) => join(folder, name));
  return places.find((place) => existsSync(place)) ?? null;
}

const kManifests = ['deployment', 'service', 'disruption', 'autoscaling', 'kustomization'];
const manifest = (name) => yamlOf(`deploy/kubernetes/${name}.yaml`)[0];
const pod = () => manifest('deployment').spec.template.spec;

test('every YAML and JSON file in deploy is one', () => {
  const files = filesUnder(kDeploy).map((path) => relative(kRoot, path));
  assert.ok(files.length >= 10, files.join(', '));
  for (const path of files) {
    if (/\.ya?ml$/.test(path)) yamlOf(path);
    if (path.endsWith('.json')) JSON.parse(read(path));
  }
});

describe('every query', { skip: whyNot }, () => {
  let families;

  /// Throws when a query asks for what no server exports.
  function check(query, where) {
    const selectors = selectorsOf(query.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*'));
    assert.ok(selectors.length > 0, `${where}: nothing is asked for: ${query}`);
    for (const { name, labels, counted } of selectors) {
      const family = [...families.values()].find(({ series }) => series.has(name));
      assert.ok(family, `${where}: nobody exports ${name}`);
      for (const label of labels) {
        assert.ok(family.labels.has(label) || kTargetLabels.has(label), `${where}: ${name} has no label ${label}`);
      }
      assert.equal(counted, family.type !== 'gauge', `${where}: rate() goes with counters, and they with it: ${name}`);
    }
  }

  before(async () => {
    const server = await startServer();
    await fetch(`${server.url}/v1/completions`, { method: 'POST', body: JSON.stringify({ prompt: 'Once', max_tokens: 8 }) });
    families = new Map([...familiesOf(await (await fetch(`${server.url}/metrics`)).text()), ...kOfPrometheus]);
    assert.equal(await server.stop(), 0);
    // Without a GPU its metrics are absent; what they are is in the documentation.
    for (const [, name] of read('docs/operations.md').matchAll(/^\| `(sluice_gpu_[a-z_]+)` \| gauge/gm)) {
      if (!families.has(name)) families.set(name, { type: 'gauge', labels: new Set(['gpu', 'name']), series: new Set([name]) });
    }
    assert.ok(families.size > 50, `${families.size} metrics`);
  });

  test('of the dashboard names what is exported', () => {
    const board = JSON.parse(read('deploy/grafana/sluice.json'));
    const used = new Set();
    let queries = 0;
    for (const panel of board.panels) {
      for (const { expr, legendFormat } of panel.targets ?? []) {
        check(expr, `panel "${panel.title}"`);
        for (const { name } of selectorsOf(expr.replaceAll('$__rate_interval', '5m'))) used.add(name.replace(/_(bucket|sum|count)$/, ''));
        assert.equal(typeof legendFormat, 'string');
        queries += 1;
      }
    }
    assert.ok(queries > 50, `${queries} queries`);
    for (const { query } of board.templating.list.filter(({ type }) => type === 'query')) {
      const [, metric, label] = query.match(/^label_values\((\w+), (\w+)\)$/);
      check(metric, 'a variable');
      assert.ok(kTargetLabels.has(label));
    }
    const ids = board.panels.map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length);
    // What operators look at first is there.
    for (const name of ['sluice_sequences_running', 'sluice_sequences_waiting', 'sluice_queue_time_seconds',
      'sluice_time_to_first_token_seconds', 'sluice_inter_token_latency_seconds', 'sluice_stream_duration_seconds',
      'sluice_prompt_tokens_total', 'sluice_generated_tokens_total', 'sluice_kv_blocks_used',
      'sluice_prefix_cache_hits_total', 'sluice_preemptions_total', 'sluice_streams_finished_total',
      'sluice_connections', 'sluice_queued_bytes', 'sluice_step_duration_seconds', 'sluice_step_sequences',
      'sluice_gpu_utilization_ratio', 'sluice_gpu_memory_used_bytes']) {
      assert.ok(used.has(name), `no panel shows ${name}`);
    }
  });

  test('of the alerts names what is exported', () => {
    const { groups } = yamlOf('deploy/prometheus/alerts.yml')[0];
    const alerts = groups.flatMap(({ rules }) => rules);
    assert.ok(alerts.length >= 5);
    for (const { alert, expr, annotations, labels } of alerts) {
      check(expr, alert);
      assert.ok(annotations.summary && labels.severity, alert);
    }
  });

  test('of the autoscaler goes through the adapter to what is exported', () => {
    const rules = yamlOf('deploy/prometheus/adapter.yml')[0].rules.custom;
    const offered = new Set();
    for (const { seriesQuery, metricsQuery, name } of rules) {
      check(seriesQuery, 'the adapter');
      check(metricsQuery.replaceAll('<<.LabelMatchers>>', 'pod="a"'), 'the adapter');
      for (const selector of selectorsOf(seriesQuery)) {
        offered.add(selector.name.replace(new RegExp(name.matches), name.as));
      }
    }
    for (const { pods } of manifest('autoscaling').spec.metrics) {
      assert.ok(offered.has(pods.metric.name), `the adapter has no ${pods.metric.name}`);
    }
  });

  test('is looked at by a check that can fail', () => {
    for (const wrong of ['sluice_nothing', 'sum by (request) (sluice_ready)', 'rate(sluice_ready[5m])',
      'sluice_generated_tokens_total', 'sluice_ready{user="x"}', 'sum(sluice_ready']) {
      assert.throws(() => check(wrong, 'a test'), undefined, wrong);
    }
  });
});

test('every option that is written down exists', { skip: whyNot }, () => {
  const help = (command) => execFileSync(process.env.SLUICE_BIN, [command, '--help'], { encoding: 'utf8' });
  const known = new Set([...help('serve').matchAll(/--[a-z][a-z-]+/g)].map(([option]) => option));
  known.add('--config').add('--json');
  const others = new Set(['--memory', '--rm', '--from-file', '--file', '--install', '--help', '--build-arg', '--gpus']);
  const used = [read('docs/operations.md'), ...pod().containers[0].args, read('deploy/prometheus/alerts.yml'),
    ...['Dockerfile', 'Dockerfile.cuda'].map((name) => read(`deploy/${name}`).match(/^ENTRYPOINT (.*)$/m)[1])]
    .flatMap((text) => [...text.matchAll(/(?<![-\w])--[a-z][a-z-]+/g)].map(([option]) => option));
  for (const [, name] of read('deploy/kubernetes/sluice.toml').matchAll(/^([a-z-]+) = /gm)) used.push(`--${name}`);
  assert.ok(used.length > 30);
  assert.deepEqual([...new Set(used)].filter((option) => !known.has(option) && !others.has(option)), []);
});

describe('Kubernetes', () => {
  test('the pod is probed where the server answers probes, and drains within its time', () => {
    const { containers: [container], terminationGracePeriodSeconds, securityContext } = pod();
    const port = container.ports.find(({ name }) => name === 'http').containerPort;
    assert.equal(port, Number(read('deploy/Dockerfile').match(/^EXPOSE (\d+)$/m)[1]));
    assert.equal(container.livenessProbe.httpGet.path, '/health');
    assert.equal(container.startupProbe.httpGet.path, '/health');
    assert.equal(container.readinessProbe.httpGet.path, '/ready');
    for (const probe of ['livenessProbe', 'startupProbe', 'readinessProbe']) assert.equal(container[probe].httpGet.port, 'http');
    const [, sleep] = container.lifecycle.preStop.exec.command;
    const drain = Number(read('deploy/kubernetes/sluice.toml').match(/^drain-timeout = (\d+)$/m)[1]);
    assert.ok(terminationGracePeriodSeconds >= Number(sleep) + drain + 5, 'the pod would be killed while it drains');
    assert.equal(securityContext.runAsNonRoot, true);
    assert.equal(String(securityContext.runAsUser), read('deploy/Dockerfile').match(/^USER (\d+):/m)[1]);
    assert.equal(container.securityContext.readOnlyRootFilesystem, true);
  });

  test('every mount has its volume, and the autoscaler its deployment', () => {
    const { containers: [container], volumes } = pod();
    assert.deepEqual(container.volumeMounts.map(({ name }) => name).toSorted(), volumes.map(({ name }) => name).toSorted());
    const kustomization = manifest('kustomization');
    assert.deepEqual(kustomization.resources.toSorted(), ['autoscaling.yaml', 'deployment.yaml', 'disruption.yaml', 'service.yaml']);
    const { scaleTargetRef } = manifest('autoscaling').spec;
    const deployment = manifest('deployment');
    assert.deepEqual([scaleTargetRef.kind, scaleTargetRef.name, scaleTargetRef.apiVersion],
      [deployment.kind, deployment.metadata.name, deployment.apiVersion]);
    assert.equal(deployment.spec.replicas, undefined);
    assert.equal(manifest('service').spec.ports[0].targetPort, 'http');
    for (const name of kManifests) assert.ok(manifest(name).apiVersion, name);
  });

  test('the plan fits into the memory of the pod', { skip: whyNot }, () => {
    const { resources } = pod().containers[0];
    const limit = resources.limits.memory.replace(/i$/, 'iB');
    const config = read('deploy/kubernetes/sluice.toml');
    const option = (name) => config.match(new RegExp(`^${name} = (\\d+)$`, 'm'))[1];
    const plan = JSON.parse(execFileSync(process.env.SLUICE_BIN, ['plan', process.env.SLUICE_MODEL, '--json',
      '--memory', limit, '--context', option('context'), '--sequences', option('sequences')], { encoding: 'utf8' }));
    assert.equal(plan.sequences, Number(option('sequences')));
    assert.equal(resources.requests.memory, resources.limits.memory);
  });

  test('kustomize puts it together', { skip: !installed('kubectl') && 'there is no kubectl here' }, () => {
    const all = parseAllDocuments(execFileSync('kubectl', ['kustomize', join(kDeploy, 'kubernetes')], { encoding: 'utf8' }))
      .map((document) => document.toJS());
    const of = (kind) => all.find((object) => object.kind === kind);
    const selector = of('Service').spec.selector;
    assert.deepEqual(of('Deployment').spec.selector.matchLabels, selector);
    assert.deepEqual(of('PodDisruptionBudget').spec.selector.matchLabels, selector);
    assert.deepEqual(of('Deployment').spec.template.metadata.labels, selector);
    const volume = of('Deployment').spec.template.spec.volumes.find(({ name }) => name === 'config');
    assert.equal(volume.configMap.name, of('ConfigMap').metadata.name);
  });

  test('the server starts with the configuration of the pod', { skip: whyNot }, async () => {
    const server = await startServer('--config', join(kDeploy, 'kubernetes/sluice.toml'));
    assert.equal((await fetch(`${server.url}/v1/models`)).status, 200);
    assert.equal(await server.stop(), 0);
  });
});

describe('Prometheus', () => {
  const promtool = process.env.SLUICE_PROMTOOL ?? installed('promtool');
  const skip = !promtool && 'there is no promtool here';

  test('takes its configuration and the alerts', { skip }, () => {
    execFileSync(promtool, ['check', 'config', join(kDeploy, 'prometheus/prometheus.yml')], { stdio: 'pipe' });
    execFileSync(promtool, ['check', 'rules', join(kDeploy, 'prometheus/alerts.yml')], { stdio: 'pipe' });
  });

  test('has nothing to say against the metrics', { skip: skip || whyNot }, async () => {
    const server = await startServer();
    const input = await (await fetch(`${server.url}/metrics`)).text();
    await server.stop();
    const said = execFileSync(promtool, ['check', 'metrics'], { input, encoding: 'utf8', stdio: 'pipe' });
    assert.equal(said, '');
  });
});

for (const name of ['Dockerfile', 'Dockerfile.cuda']) {
  describe(name, () => {
    const lines = read(`deploy/${name}`).replaceAll('\\\n', ' ').split('\n').filter((line) => line && !line.startsWith('#'));
    const of = (instruction) => lines.filter((line) => line.startsWith(`${instruction} `)).map((line) => line.slice(instruction.length + 1));

    test('has two stages, a user, a probe, and a program to run', () => {
      assert.equal(of('FROM').length, 2);
      const last = lines.slice(lines.findLastIndex((line) => line.startsWith('FROM ')));
      for (const instruction of ['USER 10001', 'HEALTHCHECK', 'ENTRYPOINT', 'STOPSIGNAL SIGTERM', 'EXPOSE']) {
        assert.ok(last.some((line) => line.startsWith(instruction)), `${instruction} is missing`);
      }
      assert.ok(of('HEALTHCHECK')[0].includes('/health'));
      assert.ok(!lines.some((line) => /:latest\b/.test(line)));
    });

    test('copies what the checkout has and the image is built from', () => {
      const ignore = read('.dockerignore').split('\n');
      assert.ok(ignore.includes('*'));
      for (const entry of ignore.filter((line) => line.startsWith('!') && !['!embed', '!include'].includes(line))) {
        assert.ok(existsSync(join(kRoot, entry.slice(1))), `${entry} is not there`);
      }
      for (const copy of of('COPY')) {
        const from = copy.match(/--from=build \/src\/(\S+)/)?.[1];
        const path = from?.startsWith('build/') ? null : from ?? copy.split(' ')[0];
        if (path) assert.ok(existsSync(join(kRoot, path)), `${path} is not there`);
      }
      for (const [, option] of read(`deploy/${name}`).matchAll(/-D(SLUICE_\w+)=/g)) {
        const cmake = read('CMakeLists.txt') + read('cmake/SluiceCuda.cmake');
        assert.ok(cmake.includes(option), `CMake does not know ${option}`);
      }
    });

    test('starts a server that its probe finds well', { skip: whyNot }, async () => {
      const [program, command, ...options] = JSON.parse(of('ENTRYPOINT')[0]);
      assert.deepEqual([program, command], ['/usr/local/bin/sluice', 'serve']);
      const changed = { '--port': '0', '--state-dir': join(process.env.TMPDIR ?? '/tmp', 'sluice-image') };
      const here = options.map((option, i) => changed[options[i - 1]] ?? option);
      const server = await startServer(...here, '--address', '127.0.0.1');  // the last one counts
      const probe = of('HEALTHCHECK')[0].match(/CMD (.*)$/)[1].replaceAll(/https?:\/\/127\.0\.0\.1:8080/g, server.url);
      if (installed('curl')) execFileSync('sh', ['-c', probe], { stdio: 'pipe' });
      await server.stop();
      if (installed('curl')) assert.throws(() => execFileSync('sh', ['-c', probe], { stdio: 'pipe' }));
    });

    test('finds the packages of the libraries that the program needs', { skip: whyNot || (!installed('dpkg-query') && 'this is no Debian') }, () => {
      const run = of('RUN').find((line) => line.startsWith('ldd '));
      const list = run.replace('build/release/app/sluice', process.env.SLUICE_BIN).replace(/> \S+$/, '');
      const packages = execFileSync('sh', ['-c', list], { encoding: 'utf8' }).trim().split('\n');
      for (const wanted of ['libcaf-core0.17', 'libfmt9', 'libpcre2-8-0', 'libsimdjson14', 'libspdlog1.10', 'libstdc++6']) {
        assert.ok(packages.includes(wanted), `${wanted} is not among ${packages}`);
      }
    });
  });
}
