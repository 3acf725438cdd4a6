// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// networkNeeds lists what a headline of the network is taken from, its value first, and since when that is counted.
func networkNeeds(id ID) []ID {
	if id == HeadlineNetworkReceived {
		return []ID{SkbReceived, SkbStartTime}
	}
	return []ID{SkbSent, SkbStartTime}
}

// NetworkHeadlines returns the headlines of the network alone.
func NetworkHeadlines(s *Sample) []HeadlineValue { return appendNetworkHeadlines(nil, s) }

func appendNetworkHeadlines(list []HeadlineValue, s *Sample) []HeadlineValue {
	return append(list, networkHeadline(s, HeadlineNetworkReceived, SkbReceived), networkHeadline(s, HeadlineNetworkSent, SkbSent))
}

// networkHeadline is a lower bound because packets may have been divided or merged. Where there was none since the start of the task,
// none was.
func networkHeadline(s *Sample, id, from ID) HeadlineValue {
	h := firstRead(s, id, []ID{from})
	_, late := s.Task.Number(SkbStartTime)
	if value, ok := h.Reading.Number(); ok && value == 0 && !late {
		h.Guarantee = Exact
	}
	return h
}
