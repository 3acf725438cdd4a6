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
	return append(list, firstRead(s, HeadlineNetworkReceived, []ID{SkbReceived}), firstRead(s, HeadlineNetworkSent, []ID{SkbSent}))
}
