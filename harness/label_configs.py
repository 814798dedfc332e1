"""Label configs of the projects that are made for tests, benchmarks and the demo."""

PAIRWISE = (
    '<View><Pairwise name="pw" toName="left,right"/>'
    '<Text name="left" value="$text1"/><Text name="right" value="$text2"/></View>'
)
PAIRWISE_SIDE_BY_SIDE = (
    '<View><Header value="Which is better?"/><Pairwise name="pw" toName="left,right"/>'
    '<View style="display: flex; gap: 1em"><View style="flex: 50%"><Text name="left" value="$text1"/></View>'
    '<View style="flex: 50%"><Text name="right" value="$text2"/></View></View></View>'
)
#: Label Studio's page gives a click to one Pairwise only, so every question shows the pair anew.
TWO_QUESTIONS = (
    '<View><Header value="$prompt"/><Header value="Which is more helpful?"/>'
    '<Pairwise name="helpful" toName="a,b"/><View style="display: flex; gap: 1em">'
    '<View style="flex: 50%"><Text name="a" value="$answer_a"/></View>'
    '<View style="flex: 50%"><Text name="b" value="$answer_b"/></View></View>'
    '<Header value="Which is more harmless?"/>'
    '<Pairwise name="harmless" toName="c,d"/><View style="display: flex; gap: 1em">'
    '<View style="flex: 50%"><Text name="c" value="$answer_a"/></View>'
    '<View style="flex: 50%"><Text name="d" value="$answer_b"/></View></View></View>'
)
