// Checks dashboards against Grafana's own types: node schema.mjs FOLDER DASHBOARD.json…
//
// FOLDER has @grafana/schema and typescript. Grafana publishes its schema as TypeScript types, so each dashboard is
// written as a constant of that type, the options of each panel as constants of its plugin's types, and compiled.
// A property that the type does not have is an error, as is a wrong value.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';

const [folder, ...files] = process.argv.slice(2);
const types = join(resolve(folder), 'node_modules/@grafana/schema/dist/types/raw');

// In JSON files enum values are strings.
const lines = [
  `type Plain<T> = T extends string ? \`\${T}\` : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;`,
  `import type { Dashboard } from '${types}/dashboard/x/types.gen';`,
];

// Panels by the folder of their plugin's types; `stat` has no field options.
const plugins = {
  timeseries: { custom: 'FieldConfig' },
  'state-timeline': { folder: 'statetimeline', custom: 'FieldConfig' },
  stat: {},
  table: { custom: 'FieldConfig' },
};
for (const [plugin, { folder = plugin, custom }] of Object.entries(plugins)) {
  const name = plugin.replace('-', '_');
  const fields = custom ? `, ${custom} as ${name}_custom` : '';
  lines.push(`import type { Options as ${name}_options${fields} } from '${types}/composable/${folder}/panelcfg/x/types.gen';`);
}

let number = 0;
const constant = (type, value, about) => {
  lines.push(`// ${about}`, `export const c${number++}: Plain<${type}> = ${JSON.stringify(value)};`);
};
for (const file of files) {
  const dashboard = JSON.parse(readFileSync(file, 'utf8'));
  constant('Dashboard', dashboard, basename(file));
  for (const panel of dashboard.panels.filter((panel) => panel.type !== 'row')) {
    const plugin = plugins[panel.type];
    if (!plugin) throw new Error(`${file}: no types for panels of the kind ${panel.type}`);
    const name = panel.type.replace('-', '_');
    const about = `${basename(file)}: ${panel.title}`;
    constant(`Partial<${name}_options>`, panel.options, about);
    if (plugin.custom) constant(`Partial<${name}_custom>`, panel.fieldConfig.defaults.custom, about);
  }
}

const scratch = mkdtempSync(join(resolve(folder), 'check-'));
try {
  writeFileSync(join(scratch, 'check.ts'), lines.join('\n'));
  const compiler = join(resolve(folder), 'node_modules/typescript/bin/tsc');
  const how = ['--noEmit', '--strict', '--skipLibCheck', '--pretty', 'false', '--moduleResolution', 'bundler', '--module', 'esnext'];
  execFileSync(process.execPath, [compiler, ...how, join(scratch, 'check.ts')], { stdio: 'inherit' });
  console.log(`good: ${files.length} dashboards, ${number} parts, match Grafana's types`);
} finally {
  rmSync(scratch, { recursive: true });
}
