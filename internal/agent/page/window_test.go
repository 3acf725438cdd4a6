// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// TestWindow holds that the charts show the time that is asked for, and that the links around it lead somewhere.
func TestWindow(t *testing.T) {
	t.Parallel()
	h := serve(stage(t), false)
	axis := regexp.MustCompile(`"since":(\d+),"until":(\d+)`)
	now := moment().Unix()
	for query, want := range map[string][2]int64{
		"":                {now - 900, now},
		"?span=5m":        {now - 300, now},
		"?span=90s":       {now - 90, now},
		"?span=1s":        {now - 900, now},
		"?span=-5m":       {now - 900, now},
		"?span=x&until=y": {now - 900, now},
		fmt.Sprintf("?span=60s&until=%d", now-600): {now - 660, now - 600},
		fmt.Sprintf("?until=%d", now+600):          {now - 900, now},
		"?until=1":                                 {now - 900, now},
		"?span=5m&until=" + moment().Add(-time.Hour).Local().Format("2006-01-02+15:04"):    {now - 3900, now - 3600},
		"?span=5m&until=" + moment().Add(-time.Hour).Local().Format("2006-01-02+15:04:05"): {now - 3900, now - 3600},
		"?span=5m&until=" + moment().Add(-time.Hour).Local().Format("15:04"):               {now - 3900, now - 3600},
		"?span=5m&until=" + moment().Add(time.Minute).Local().Format("15:04"):              {now - 300, now}, // before its start
		"?span=5m&until=2026-13-45T99:99":                                                  {now - 300, now},
	} {
		content := get(t, h, task(1, "api")+query).Body.String()
		found := axis.FindStringSubmatch(html.UnescapeString(content))
		if got := fmt.Sprint(found[1:]); got != fmt.Sprint([]string{fmt.Sprint(want[0] * 1000), fmt.Sprint(want[1] * 1000)}) {
			t.Errorf("%q shows %s, want %v", query, got, want)
		}
		for _, link := range regexp.MustCompile(`<a href="([^"#]*)[^"]*" aria-label="(?:earlier|later|zoom in|zoom out)"`).FindAllStringSubmatch(content, -1) {
			target := html.UnescapeString(link[1])
			if w := get(t, h, target); w.Code != 200 || w.Body.String() == content {
				t.Errorf("%q: %s is %d, or the same", query, target, w.Code)
			}
		}
	}
	if content := get(t, h, task(1, "api")+fmt.Sprintf("?span=60s&until=%d",
		now-600)).Body.String(); !strings.Contains(content, "later") ||
		!strings.Contains(content, moment().Add(-10*time.Minute).Format("15:04:05")) {
		t.Error("a window in the past does not say so")
	}
}
