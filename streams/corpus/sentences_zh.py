"""Chinese sentence patterns, by what a sentence does in an article.

The slots are the roles of a topic (topics.py) and the cast of the article (articles.py). Patterns
keep their fixed words few and their alternatives many: what two articles have in common is then
grammar, as with real articles, not phrases.
"""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "lede": """{date}，{office}[对外公布|通报|披露]，[计划|将|准备]在{span}内{action}，[首批|第一批]
涉及{place}、{place2}[两地|一带|等地];
[走进|来到]{place}的{site}，{scene}。[{figure}，这是{date}的数字|这里便是{firm}的所在];
{scene}。这是{date}[记者|笔者]在{place}{site}[看到|遇到|拍下]的一幕;
[围绕|关于|说起]{subject}，{place}的{crowd}[争论|议论|商量]了{span}，
[如今|眼下|现在]终于[有了结果|迈出了一步|见了分晓];
“{view}。”{date}，在{place}的{site}，{speaker}[这样|用一句话|笑着]开了头;
{place}[最近|近来|这阵子][忙|热闹]了起来：[先是|一边]{action}，[接着|一边]又{action}。{result};
{firm}{date}[宣布|公告称|发布消息说]，[已经|将]与{office}[合作|签约|联手]，{action};
[一组|几个]数字[说明|勾勒出]{place}{subject}的[变化|处境|轮廓]：{figure}，{figure};
{subject}[从来不是小事|又成了话题|牵动着千家万户]。{date}，{office}
[拿出|公布|端出]了[一份清单|一套办法|新方案];
[受|因为]{problem}的[影响|困扰|拖累]，{place}{date}起{action}，[成效|效果]如何，各方都在看;
[不少|许多|很多]{crowd}[发现|注意到]，[今年|这个月|最近]的{subject}
和[往年|从前|过去][不大一样|有了不同];
为[缓解|解决|应对]{problem}，{office}[联合|会同|委托]{firm}，[从即日起|本季度开始]{action};
{name}今年{#23-68}岁，在{place}做{actor}[整整|已有]{#3-35}年。[说到|提起]{subject}，
[他|她][有一肚子话|最有发言权];
距离[年底|验收|收官]还有{#9-80}天，{place}的{site}[灯火通明|一片忙碌|进入倒计时]""",
    "fact": """[据{office}介绍|{office}的材料显示|记者从{office}了解到]，
[今年以来|过去{span}|截至{date}]，[全市|当地|辖区内]已[先后|陆续]{action};
[具体|简单]来说，[一是{action}，二是{action}，三是{action}|
先{action}，再{action}，最后{action}];
{thing}、{thing}和{thing}[也被列入|同样写进了]这次的[名单|计划|办法];
[按照|根据]{office}的[安排|部署|要求]，{place}要在{span}内{action};
{firm}[拿出|投入|追加]{money}，[主要|全部]用来{action};
[除了|不仅是]{thing}，[这里|当地|{place}]还在{thing}上[下了功夫|动了脑筋|做了尝试];
[此前|早些时候]，{place2}也曾{action}，[可惜|不过|当时]{problem}，[没能坚持下来|进展不大];
{crowd}可以[凭身份证|打电话|在线]向{office}[提出申请|报名|查询]，[受理期|窗口期]为{span};
[负责|牵头]这件事的是{firm}，[参与者|成员]里有[不少|几位]{crowd};
[方案|办法|规程][一共|总共]{#5-48}条，[其中|最受关注的]一条是{action};
{site}[原先|过去]是[一间库房|一片空地|堆杂物的角落]，{span}前才[改成|变成]今天的样子;
[{thing}怎么办|钱从哪里来|谁来干]？{place}的[答案|做法]是{action};
[同一天|几乎同时]，{office}[派人|组织人手]到{site}[检查|走访|核对]{thing};
[第一步|起初]只是{action}，[后来|渐渐]连{thing}也[管了起来|算在内];
[每逢|到了][周末|月底|换季]，{crowd}都会到{site}[看看|帮忙|转一圈]，[顺便|也]问问{thing};
{thing}的[事情|问题]由{firm}[承担|包下]，{thing}则[交给|留给]了{crowd};
{place}[下辖|共有]{#4-26}个[乡镇|街道|片区]，[情况|条件][各不相同|差别很大]，
[办法|步子]也就[不搞一刀切|有快有慢];
[从|打]{date}[开始|算起]，{site}[每天|每周]{#2-9}次[清点|记录|更新]{thing};
[相比之下|对比来看]，{place2}[更看重|先抓]{thing}，{place}则[偏重|盯住]{thing};
{office}[还|另外]{action}，[所需|相关]费用由[财政|企业|基金]承担[一半|三成|七成]""",
    "figure": """[统计|数据|账本]显示，{figure}，[比上年|同比][多|少|高|低]了[不少|一截];
{date}的[数据|抽样]里，{figure}，{figure};
[到目前为止|截至{date}]，{figure}。[换句话说|也就是说]，{result};
{figure}——[这是|说的是]{place}{span}[来|以来]的[成绩单|变化];
{place2}的[情况|数字]则[是另一番样子|有所不同]：{figure};
[投入|花费]{money}之后，{figure}，[超过|略低于|接近][预期|目标];
如果[只看|单看]{thing}，[增幅|降幅][达到|只有]{#2-46}.{#1-9}%，[放到|加上]{thing}[就不一样了|才看得完整];
[报告|年报]第{#2-60}页写着：{figure};
{speaker}[掰着指头|翻开本子]算了一笔账：{figure}，{figure};
[按|以][目前|现在]的[速度|进度]，[再过{span}|到明年这个时候]，{figure}[不是难事|并不意外]""",
    "quote": """“{view}。”{speaker}[说|告诉记者|这样讲];
{speaker}[认为|觉得|坦言]，{view};
“{view}。”[说起|谈到|回到]{thing}，{speaker}又[补充|添了一句]：“{view}。”;
[在{speaker}看来|对{speaker}来说]，{thing}[比{thing}更要紧|只是开头|还谈不上成熟]，[因为|毕竟]{view};
{speaker}[打了个比方|想了想]：“{view}。”;
[被问到|谈到|提起]{thing}，{speaker}[笑了|沉默了一会儿|摆摆手]：“{view}。”;
“[要说难|说实话|讲真的]，{problem}[最让人头疼|我们早料到了]，”{speaker}说;
“我[刚来|接手]的时候，{problem}，[谁都不看好|大家都想走]。”{speaker}[回忆|回想起来][说|道];
{speaker}[则|倒是|却][有不同的看法|更谨慎|泼了点冷水]：“{view}。”;
“[为什么要{action}|图什么呢]？{view}。”{speaker}[反问|解释]道;
“{result}，[这就够了|我心里踏实]。”{speaker}说这话时[正在|一直在][整理|收拾|擦]{thing};
[几位|有的]{crowd}[也|都][附和|承认|感叹]：{view}""",
    "scene": """{scene};
[那天|有一回][一早|傍晚|中午]，{scene};
{site}里，{scene}。[{speaker}就坐在旁边|没有人觉得奇怪|日子就这么一天天过去];
[记者|我们]在{site}[待了|守了]{#2-9}个小时，{scene};
{scene}，{crowd}[三三两两|陆陆续续][围拢过来|散去]""",
    "problem": """[不过|然而|问题在于]，{problem}[仍然|依旧]是[绕不开的坎|摆在面前的难题];
[最|更][棘手|头疼]的是{problem}，[再加上|此外还有]{problem};
{problem}，[让|使得]{crowd}[左右为难|叫苦不迭|有些泄气];
{date}，[因为|由于]{problem}，{site}[停了|关了|乱了]{span};
[一些|部分]{crowd}[担心|抱怨|反映]，{problem}，[{thing}迟早要出问题|受累的还是自己];
{problem}[由来已久|不是一天形成的]，{office}[承认|表示]，[短期内|一时]难以[根治|扭转];
[这并不容易|事情没有那么顺利]。{date}[碰上|遇到]{problem}，[计划|工期|安排]推迟了{span};
[与其说是{problem}，不如说是{problem}|
表面看是{problem}，根子却在{problem}];
[问卷|回访]里，{#21-68}%的{crowd}提到了{problem};
{place2}[吃过|有过]类似的[亏|教训]：{problem}，[结果|最后]{thing}[也丢了|只好作罢]""",
    "turn": """[为此|针对这一点|于是]，{office}[决定|着手]{action};
[转机|变化]出现在{date}：{firm}[帮着|出面]{action}，{result};
{speaker}[带着|领着]{crowd}{action}，[一干就是|前后花了]{span};
[几经|经过多轮][商量|试验|修改]，[大家|各方]同意{action};
[办法|出路]是[逼出来的|试出来的]：{action}，[同时|顺带]{action};
{span}过去，{result}，{result};
[有人|{name}]提议{action}，[起先|一开始][没人响应|反对的不少]，[后来|试了几次]{result};
{firm}[派来|抽调]{#2-18}名{actor}，[驻点|蹲守]{span}，[总算|终于]{result};
[收效|好处][很快|慢慢][显现|看得见]：{result};
[与此同时|另一头|另一方面]，{action}也[没有停|在推进]，{result}""",
    "history": """{place}的{subject}[可以追溯到|起步于]{year}年，[那时|当时]{problem}，
[条件很苦|没有几个人看好];
{year}年，{name}[第一个|率先]在{site}{action};
[老人们|老住户]还记得，{year}年[前后|那阵子]，{thing}[是稀罕物|全靠肩扛手提|要凭票];
[从{year}年到现在|{#12-60}年间]，{site}[搬过|修过]{#2-5}次，[只有|唯独]{thing}[没有变|还是老样子];
{firm}[成立|创办]于{year}年，[最早|起家]靠的是{thing}，[后来|如今]才[转向|涉足]{thing};
[史料|档案|旧报纸]里[提到|记着]，{place}[曾因|一度因为]{problem}[停办|中断]过{span};
{name}的[父亲|师傅|母亲]也是{actor}，[家里|柜子里]至今[留着|收着][一张旧照片|一本手写的册子]""",
    "outlook": """[下一步|接下来|今后]，{place}[还将|打算]{action}，[并|同时]{action};
{office}[负责人|相关人士][表示|透露]，[明年|下半年][重点|主要]是{thing}和{thing};
[能不能|是否]{action}，[取决于|要看]{thing}[，也要看{thing}|的进展];
[按计划|顺利的话]，{span}后[将|可以]{action};
[专家|业内人士][建议|提醒]，[先|应当]{action}，[再|然后][考虑|谈]{thing};
{firm}[透露|预计]，[第二期|新的一批]{thing}[正在|已经][筹备|招标|调试]，[约需|预算]{money};
[还有|剩下]{#3-40}处[类似|同样]的{site}[等着|有待][处理|改造|答复];
{speaker}[的愿望|心里的打算]很[朴素|具体]：{action};
[至于|说到]{thing}，[目前|眼下]还[没有定论|在听意见]，{office}[答应|承诺]{span}内[答复|给个说法]""",
    "close": """[临走时|告别的时候]，{scene};
“{view}。”[采访最后|合上本子前]，{speaker}[又补了一句|轻声说];
[路还长|事情还没完]，[但|好在]{result};
[明天|下个星期]，{speaker}[还要|又要]去{site}，[那里|等着的是]{problem}，[也|还]有{crowd};
[读者|居民]如有[线索|意见]，可[致电|来信]{office}，[编号|文号]{year}-{#101-989};
[眼下|此刻]，{place}的[夜色|天气|街道][正好|渐凉|安静下来]，{site}的灯还[没有关|亮着];
{office}[提醒|建议]{crowd}，[近期|出门前][留意|多问一句]{thing};
[或许|也许]，{subject}的[意义|价值]就在于{view}""",
}
"""The sentences of a Chinese article by section; the full stop is the writer's."""

TITLES = """
{place}[{action}|推出{subject}新办法];{subject}[为何|怎样][变了|难了]？;[走进|探访]{place}{site};
{firm}：{action};{place}：{result};“{view}”;{subject}[调查|观察|手记]：{problem}怎么办;
{office}{action};{problem}之后，{place}{action};{actor}{name}的[{#10-40}年|一天|账本];
[一线|聚焦|民生]｜{subject}与{thing};{result}，{place}做了什么"""
"""Headlines."""
