"""Renders chat templates with the reference and writes tests/data/model/templates.json: for each template
its source and, for each chat, what transformers renders, or null where it fails.

    python tools/golden/make_template_golden.py [OUT]

transformers 5.17, jinja2 3.1. The first template is the one of models/digits, which is Qwen2.5-VL's as
transformers' processors save it. The others are written here, with the constructs that the published
templates of Qwen2, Qwen2.5, Qwen3 and Qwen3-VL use.
"""

import json
import pathlib
import sys

from transformers.utils.chat_template_utils import render_jinja_template

ROOT = pathlib.Path(__file__).resolve().parents[2]

# As Qwen2's: one loop, a default system message.
PLAIN = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}\
{{ '<|im_start|>system\\nBe of help.<|im_end|>\\n' }}{% endif %}\
{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}\
{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

# As Qwen2.5's: tools, tool calls and white space control. Tools are none here.
TOOLS = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- tool_call.arguments | tojson }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

# As Qwen3's: the last question is looked for from the end, thinking is cut out of older answers.
THINKING = """{%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "assistant" %}
        {%- set thoughts = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thoughts = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set thoughts = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or (not loop.last and thoughts)) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + thoughts.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

# As Qwen3-VL's: a macro writes the content, pictures are counted in a namespace.
MACRO = """{%- set image_count = namespace(value=0) %}
{%- set video_count = namespace(value=0) %}
{%- macro render_content(content, do_count) %}
    {%- if content is string %}
        {{- content }}
    {%- else %}
        {%- for item in content %}
            {%- if 'image' in item or 'image_url' in item or item.type == 'image' %}
                {%- if do_count %}
                    {%- set image_count.value = image_count.value + 1 %}
                {%- endif %}
                {%- if add_vision_id %}Picture {{ image_count.value }}: {% endif -%}
                <|vision_start|><|image_pad|><|vision_end|>
            {%- elif 'video' in item or item.type == 'video' %}
                {%- if do_count %}
                    {%- set video_count.value = video_count.value + 1 %}
                {%- endif %}
                {%- if add_vision_id %}Video {{ video_count.value }}: {% endif -%}
                <|vision_start|><|video_pad|><|vision_end|>
            {%- elif 'text' in item %}
                {{- item.text }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
{%- endmacro %}
{%- for message in messages %}
    {%- set content = render_content(message.content, True)|trim %}
    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ content ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""

# Constructs of all kinds, one a line.
ODDS = """{# a comment
of two lines #}
first line
  {% if true %}
  kept
  {% endif %}
{%- set a, b = 1, 2 %}
sums {{ a + b }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 * 3 - 1 }} {{ 1.5 + 1 }} {{ 10 ~ 'x' ~ none }}
logic {{ 1 and 0 or 'o' }} {{ not a == 2 }} {{ 'yes' if b > a else 'no' }} {{ 'only' if false }} {{ 2 in [1, 2] }} {{ 'k' not in {'k': 1} }}
parts {{ 'häuser'[1] }} {{ 'häuser'[1:3] }} {{ 'häuser'[-2:] }} {{ [1, 2, 3][::-1] | join('-') }} {{ [1, 2, 3][5:] | length }} {{ [0, 1, 2, 3, 4][4:0:-2] | join }}
tests {{ a is odd }} {{ b is even }} {{ a is number }} {{ 'x' is string }} {{ {} is mapping }} {{ none is none }} {{ nowhere is defined }} {{ a is divisibleby 1 }} {{ [] is iterable }} {{ true is true }} {{ 1 is true }} {{ a is eq 1 }} {{ a is not in [3] }}
filters {{ ' x ' | trim }}|{{ 'abc' | upper | lower | length }} {{ nowhere | default('d') }} {{ '' | default('e', true) }} {{ [3, 4] | first }} {{ [3, 4] | last }} {{ 'aXbXc' | replace('X', '-') }} {{ {'k': [1, 2.5, true, none, 'q"\\n']} | tojson }} {{ [1, 2] | reverse | list | join(',') }} {{ 'abc' | string }}
methods {{ 'a,b,c'.split(',') | join('+') }} {{ 'a b  c'.split() | join('+') }} {{ 'a,b,c'.rsplit(',', 1) | first }} {{ 'xxaxx'.strip('x') }} {{ '  l'.lstrip() }} {{ 'abc'.find('c') }} {{ 'abab'.replace('a', 'X', 1) }} {{ {'k': 5}.get('k') }} {{ {'k': 5}.get('z', 6) }}
{% for key, value in {'x': 1, 'y': 2}.items() %}{{ loop.index }}/{{ loop.length }} {{ key }}={{ value }}{% if not loop.last %}, {% endif %}{% endfor %}

{% for i in range(6) if i % 2 %}{{ i }}{{ loop.revindex0 }} {% else %}none{% endfor %}
{% for i in [] %}x{% else %}nothing{% endfor %}

{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}

{% set block %}in a {{ 'block' }}{% endset %}{{ block }}|
{%- set inner = 'out' %}{% for i in [1] %}{% set inner = 'in' %}{% endfor %} {{ inner }}
{% macro greet(name, sign='!') %}hi {{ name }}{{ sign }}{% endmacro %}{{ greet('you') }} {{ greet('me', sign='?') }}
{{ messages[0]['content'] if messages[0].content is string }}{% generation %} marked{% endgeneration %}
{{- '' }}
   {{ 'left' }}   {%- if true %} tight {%+ endif %}
end"""

CHATS = [
    [{"role": "user", "content": "Hello"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "  Hi,\n\nthere  "}],
    [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nSo."},
        {"role": "user", "content": "And \u00e4 \u5b57 \U0001f600?\u3000"},
    ],
    [
        {"role": "user", "content": "<tool_response>1</tool_response>"},
        {"role": "assistant", "content": "a</think>\n\nb</think>c"},
    ],
    [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "This: "},
                {"type": "image"},
                {"type": "image"},
                {"type": "text", "text": " and that?"},
            ],
        },
        {"role": "assistant", "content": "Both."},
        {"role": "user", "content": [{"type": "video"}, {"type": "text", "text": "\n"}]},
    ],
    [{"role": "user", "content": ""}, {"role": "system", "content": "late"}, {"role": "assistant", "content": "ok"}],
]


def render(template, messages, **options):
    try:
        return render_jinja_template([messages], chat_template=template, **options)[0][0]
    except Exception:  # whatever jinja2 raises, rserve must refuse too
        return None


def main():
    digits = (ROOT / "models/digits/chat_template.jinja").read_text()
    templates = {"digits": digits, "plain": PLAIN, "tools": TOOLS, "thinking": THINKING, "macro": MACRO, "odds": ODDS}
    golden = []
    for name, template in templates.items():
        for messages in CHATS:
            for generate, number in ((True, False), (False, True)):
                text = render(template, messages, add_generation_prompt=generate, add_vision_id=number)
                golden.append({"template": name, "messages": messages, "add_generation_prompt": generate,
                               "add_vision_id": number, "text": text})  # fmt: skip
    out = {"sources": templates, "chats": golden}
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/data/model/templates.json"
    path.write_text(json.dumps(out, indent=1, ensure_ascii=True) + "\n")
    print(path, len(golden), sum(g["text"] is None for g in golden), "refused")


if __name__ == "__main__":
    main()
