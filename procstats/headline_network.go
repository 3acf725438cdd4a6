// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// networkNeeds lists what a headline of the network is taken from, its value first.
func networkNeeds(id ID) []ID {
	if id == HeadlineNetworkReceived {
		return []ID{SkbReceived, SkbStartTime}
	}
	return []ID{SkbSent, SkbStartTime}
}

// NetworkHeadlines returns the headlines of the network alone. A task that was started before its packets were counted has
// received and sent at least what was counted.
func NetworkHeadlines(s *Sample) []HeadlineValue { return appendNetworkHeadlines(nil, s) }

func appendNetworkHeadlines(list []HeadlineValue, s *Sample) []HeadlineValue {
	received, sent := firstRead(s, HeadlineNetworkReceived, []ID{SkbReceived}), firstRead(s, HeadlineNetworkSent, []ID{SkbSent})
	if _, late := s.Task.Number(SkbStartTime); late {
		for _, h := range []*HeadlineValue{&received, &sent} {
			if h.Guarantee == Exact {
				h.Guarantee = LowerBound
			}
		}
	}
	return append(list, received, sent)
}
