// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
)

// topOrder is an order of the rows.
type topOrder struct {
	word string
	key  rune
	// weight is the number that rows are sorted by, the highest first; by name where rows are equal.
	weight func(*topRow) *float64
}

// topOrders are the orders, CPU first.
func topOrders() []topOrder {
	return []topOrder{
		{"cpu", 'c', func(u *topRow) *float64 { return u.Cores }},
		{"memory", 'm', func(u *topRow) *float64 { return u.Memory }},
		{"io", 'i', func(u *topRow) *float64 { return sum(u.Read, u.Written) }},
		{"name", 'p', func(*topRow) *float64 { return nil }},
		{"processes", 't', func(u *topRow) *float64 { return u.Processes }},
		{"pressure", 'w', func(u *topRow) *float64 { return greatest(u.CPUPressure, u.MemoryPressure, u.IOPressure) }},
		{"end", 'e', func(u *topRow) *float64 {
			if u.LastEnd == nil {
				return nil
			}
			return new(float64(u.LastEnd.At.Unix()))
		}},
	}
}

func sortWords() (words []string) {
	for _, o := range topOrders() {
		words = append(words, o.word)
	}
	return words
}

// topModel is the state of tacho top without its terminal: what is shown, and how keys change it.
type topModel struct {
	palette cli.Palette
	delay   time.Duration
	sort    string // the word of a topOrder
	reverse bool
	filter  string
	// typing is set while the filter is typed; help, tree and logs are other pages.
	typing, help, tree, logs bool
	// confirm is the action that is done if the next key is y; said is what the last one did.
	confirm topAction
	said    string
	// machine is what the machine uses; nil if unknown.
	machine *client.NodeStats
	// none says why there is no task.
	none string
	// failedFirst orders the commands of a task by how many of their processes failed.
	failedFirst bool
	// selected is the key of the selected row; empty for the first.
	selected string
	// scroll is the first visible line of a page that is longer than the screen, bottom the last that can be: beyond it
	// the page follows its end.
	scroll, bottom int

	rows []*topRow
	at   time.Time
	err  error
}

// update replaces the rows, or keeps the old ones after an error.
func (m *topModel) update(rows []*topRow, err error) {
	m.err = err
	if err == nil {
		m.rows, m.at = rows, time.Now()
	}
}

// visible returns the rows that match the filter, sorted.
func (m *topModel) visible() []*topRow {
	rows := []*topRow{} // in JSON, an empty list is not null
	for _, r := range m.rows {
		text := strings.ToLower(r.title() + " " + r.word() + " " + r.last(m.at))
		if strings.Contains(text, strings.ToLower(m.filter)) || strings.HasPrefix(r.Alloc, m.filter) {
			rows = append(rows, r)
		}
	}
	weight := m.weight()
	slices.SortStableFunc(rows, func(a, b *topRow) int {
		order := cmp.Or(cmp.Compare(orLeast(weight(b)), orLeast(weight(a))), cmp.Compare(a.title(), b.title()),
			cmp.Compare(a.Alloc, b.Alloc))
		if m.reverse {
			return -order
		}
		return order
	})
	return rows
}

// orLeast returns a value, or what is below all values for nil.
func orLeast(value *float64) float64 {
	if value == nil {
		return math.Inf(-1)
	}
	return *value
}

// weight returns the number by which rows are sorted.
func (m *topModel) weight() func(*topRow) *float64 {
	orders := topOrders()
	return orders[max(0, slices.IndexFunc(orders, func(o topOrder) bool { return o.word == m.sort }))].weight
}

// sum adds values, ignoring nil; nil if all are.
func sum(values ...*float64) (total *float64) {
	for _, v := range values {
		if v != nil {
			total = cmp.Or(total, new(float64))
			*total += *v
		}
	}
	return total
}

func greatest(values ...*float64) (most *float64) {
	for _, v := range values {
		if v != nil && (most == nil || *v > *most) {
			most = v
		}
	}
	return most
}

// ratio returns part / whole; nil if either is.
func ratio(part, whole *float64) *float64 {
	if part == nil || whole == nil || *whole <= 0 {
		return nil
	}
	return new(*part / *whole)
}

// chosen returns the selected row and its index; nil if there are no rows.
func (m *topModel) chosen() (row *topRow, at int) {
	rows := m.visible()
	for i, r := range rows {
		if r.key() == m.selected {
			return r, i
		}
	}
	if len(rows) == 0 {
		return nil, 0
	}
	return rows[0], 0
}

// topAction is what the loop has to do after a key.
type topAction int

const (
	topNothing topAction = iota
	topQuit
	topRefresh
	topRestart
	topStop
	topShell
)

// ask is an action that is confirmed, and what it does.
type ask struct {
	action topAction
	what   string
}

// asked are the actions that are confirmed, by their keys.
func asked() map[rune]ask {
	return map[rune]ask{
		'R': {topRestart, "restart task"}, 'S': {topStop, "stop the allocation of task"},
		'x': {topShell, "run a shell beside task"},
	}
}

// key is one key press: a rune, or the name of a key without one.
type key struct {
	r    rune
	name string
}

// press handles a key.
func (m *topModel) press(k key) topAction {
	if m.typing {
		return m.typed(k)
	}
	m.said = ""
	if action := m.confirm; action != topNothing {
		if m.confirm = topNothing; k.r == 'y' {
			return action
		}
		if k.name != "ctrl-c" {
			return topNothing
		}
	}
	if page := m.help || m.tree || m.logs; k.name == "esc" || k.r == 'q' || k.name == "enter" && page {
		if page {
			m.help, m.tree, m.logs, m.scroll = false, false, false, 0
			return topNothing
		}
		if k.name == "esc" {
			m.filter = ""
			return topNothing
		}
		return topQuit
	}
	if m.move(k) || m.order(k) {
		return topNothing
	}
	switch {
	case k.name == "ctrl-c":
		return topQuit
	case k.r == ' ', k.name == "ctrl-l":
		return topRefresh
	case k.r == 'h', k.r == '?':
		m.help, m.scroll = !m.help, 0
	case k.r == 'f':
		m.failedFirst = !m.failedFirst
	case k.r == '/':
		m.typing, m.help, m.tree, m.logs = true, false, false, false
	default:
		return m.act(k)
	}
	return topNothing
}

// act handles a key about the selected task.
func (m *topModel) act(k key) topAction {
	row, _ := m.chosen()
	if row == nil {
		return topNothing
	}
	switch {
	case k.name == "enter":
		m.tree, m.selected, m.scroll = true, row.key(), 0
		return topRefresh // with its commands
	case k.r == 'l':
		m.logs, m.tree, m.help, m.selected, m.scroll = true, false, false, row.key(), 1<<30
		return topRefresh // with its output
	}
	if ask, ok := asked()[k.r]; ok {
		m.confirm, m.selected = ask.action, row.key()
		m.said = ask.what + " " + row.title() + "? y: yes, any other key: no"
	}
	return topNothing
}

// opened returns the key of the task whose page is shown; empty for none.
func (m *topModel) opened() string {
	if !m.tree && !m.logs {
		return ""
	}
	return m.selected
}

// order handles a key for sorting; false if it is not one.
func (m *topModel) order(k key) bool {
	orders := topOrders()
	i := slices.IndexFunc(orders, func(o topOrder) bool { return o.key == k.r })
	switch {
	case k.r == 'r', i >= 0 && orders[i].word == m.sort:
		m.reverse = !m.reverse
	case i >= 0:
		m.sort, m.reverse = orders[i].word, false
	default:
		return false
	}
	return true
}

// move handles a key for selecting or scrolling; false if it is not one.
func (m *topModel) move(k key) bool {
	const page = 10
	step, ok := map[string]int{
		"up": -1, "down": 1, "page up": -page, "page down": page, "home": -1 << 30,
		"end": 1 << 30,
	}[k.name]
	if !ok {
		step, ok = map[rune]int{'k': -1, 'j': 1, 'g': -1 << 30, 'G': 1 << 30}[k.r]
	}
	if !ok {
		return false
	}
	if m.help || m.tree || m.logs {
		m.scroll = max(0, min(m.scroll, m.bottom)+step)
		return true
	}
	rows := m.visible()
	if _, at := m.chosen(); len(rows) > 0 {
		m.selected = rows[min(max(0, at+step), len(rows)-1)].key()
	}
	return true
}

// typed handles a key while the filter is typed.
func (m *topModel) typed(k key) topAction {
	switch {
	case k.name == "ctrl-c":
		return topQuit
	case k.name == "enter":
		m.typing = false
	case k.name == "esc":
		m.typing, m.filter = false, ""
	case k.name == "backspace":
		if runes := []rune(m.filter); len(runes) > 0 {
			m.filter = string(runes[:len(runes)-1])
		}
	case k.name == "" && unicode.IsPrint(k.r):
		m.filter += string(k.r)
	}
	return topNothing
}
