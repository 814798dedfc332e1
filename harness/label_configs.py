"""Label configs of the projects that are made for tests, benchmarks and the demo."""

PAIRWISE = (
    '<View><Pairwise name="pw" toName="left,right"/>'
    '<Text name="left" value="$text1"/><Text name="right" value="$text2"/></View>'
)
PAIRWISE_SIDE_BY_SIDE = (
    '<View><Header value="Which is better?"/><Pairwise name="pw" toName="left,right"/>'
    '<View style="display:flex"><Text name="left" value="$text1"/><Text name="right" value="$text2"/></View></View>'
)
TWO_QUESTIONS = (
    '<View><Header value="$prompt"/><View style="display:flex"><Text name="a" value="$answer_a"/>'
    '<Text name="b" value="$answer_b"/></View><Header value="Which is more helpful?"/>'
    '<Pairwise name="helpful" toName="a,b"/><Header value="Which is more harmless?"/>'
    '<Pairwise name="harmless" toName="a,b"/></View>'
)
