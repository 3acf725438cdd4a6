// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package page is the agent's web page: what tasks use, what they wait for and why they ended, for people.
//
//	/                      all tasks, the machine, ended tasks
//	/alloc/ID/TASK         one task: charts, processes, limits, events, final record
//	/measurements          the table of measurements
//	/page/stream/…         what changed on the page of that path, as server-sent events
//	/page/assets/…         style sheet, script, icon
//
// Pages are whole without scripts. The script of this package replaces the content of elements that carry data-live;
// the stream has their names and new content, rendered by the templates that rendered the page.
package page
