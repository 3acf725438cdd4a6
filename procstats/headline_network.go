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
func NetworkHeadlines(s *Sample) []HeadlineValue {
	list := []HeadlineValue{firstRead(s, HeadlineNetworkReceived, []ID{SkbReceived}), firstRead(s, HeadlineNetworkSent, []ID{SkbSent})}
	if _, late := s.Task.Number(SkbStartTime); late {
		for i := range list {
			if list[i].Guarantee == Exact {
				list[i].Guarantee = LowerBound
			}
		}
	}
	return list
}
