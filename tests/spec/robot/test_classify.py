"""What a sentence is filed under."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemolog.events.robot import PROTECTED
from mnemolog.services.families.robot.deciding.classify import Classification, classify

DOCUMENTED = [
    ("constraint", "Must never exceed 15N grip force"),
    ("preference", "Prefer approach from left side"),
    ("worldview", "ONNX is faster than Ollama for small models"),
    ("tradeoff", "Speed vs accuracy: use 10Hz for real-time"),
    ("root_cause", "Failure caused by sensor drift"),
    ("decision", "Chose PID over MPC for simplicity"),
    ("pattern", "Every time humidity > 80%, grip fails"),
    ("postmortem", "Lesson: always calibrate before new session"),
    ("gotcha", "Pitfall: joint limits not checked in sim"),
    ("observation", "Found that red cups require more force"),
    ("constraint", "抓取力不得超过 15N"),
    ("preference", "优先从左侧接近"),
    ("worldview", "ONNX 对小模型比 Ollama 更快"),
    ("tradeoff", "速度与精度:实时场景使用 10Hz"),
    ("root_cause", "故障由传感器漂移引起"),
    ("decision", "为了简化选择 PID 而非 MPC"),
    ("pattern", "每当湿度 > 80%,抓取就会失败"),
    ("postmortem", "教训:新会话前务必先校准"),
    ("gotcha", "陷阱:仿真中未检查关节限位"),
    ("observation", "发现红色杯子需要更大的力"),
]

ENGLISH = [
    ("constraint", "The arm must be homed before the conveyor starts."),
    ("constraint", "Never run the spindle with the guard open"),
    ("constraint", "Always power down the bus before swapping a servo"),
    ("constraint", "Entering the cell while the beacon is red is forbidden"),
    ("constraint", "It is not allowed to bypass the light curtain"),
    ("constraint", "Don't drive the lift above 40 cm with a load"),
    ("constraint", "Two operators are required for teach mode"),
    ("constraint", "Payload should not exceed 3 kg at full reach"),
    ("constraint", "The base must not move because the arm would tip over"),
    ("preference", "I prefer suction cups to fingers for cardboard"),
    ("preference", "It is recommended to use the wide jaw for trays"),
    ("preference", "Slow approach preferred near glass"),
    ("preference", "Better to grasp mugs by the handle"),
    ("preference", "Ideally the camera is mounted on the wrist"),
    ("worldview", "Soft fingers are better than hard ones for fruit"),
    ("worldview", "From now on log torque at 1 kHz"),
    ("worldview", "A wired e-stop is more reliable than a radio one"),
    ("worldview", "The best way to pick a bag is from its fold"),
    ("worldview", "AprilTags outperform ring markers in dim light"),
    ("tradeoff", "Stiffness versus safety at the wrist: 400 N/m is a fair middle"),
    ("tradeoff", "There is a trade-off between frame rate and exposure"),
    ("tradeoff", "Pros and cons of magnetic grippers for sheet metal"),
    ("tradeoff", "Higher gain shortens settling at the cost of noise"),
    ("tradeoff", "The advantage of belts is silence, chains carry more"),
    ("root_cause", "The drop happened because the vacuum line was kinked"),
    ("root_cause", "The issue was a loose ground strap on the encoder"),
    ("root_cause", "Localisation jumps are due to the mirrored wall"),
    ("root_cause", "Root cause of the stall: dried grease in joint 4"),
    ("root_cause", "Missed picks were traced back to a dirty lens"),
    ("root_cause", "Grasp failed because we chose the wrong tool frame"),
    ("decision", "We decided to keep the planner on the edge box"),
    ("decision", "Decided against wheel odometry because the floor is wet"),
    ("decision", "Use the left bin instead of the right one in cell B"),
    ("decision", "We should move calibration into the boot sequence"),
    ("decision", "Went with a harmonic drive for the elbow"),
    ("pattern", "Whenever the compressor starts, the scale reads 5 g high"),
    ("pattern", "Each time the door opens the depth image flickers"),
    ("pattern", "Recurring dropout of camera 2 around noon"),
    ("pattern", "The second pick always slips on oily parts"),
    ("pattern", "Battery voltage tends to sag after forty minutes"),
    ("pattern", "The lid often sticks on cold mornings"),
    ("postmortem", "Postmortem of the tray crash: the brake was off"),
    ("postmortem", "The lesson is to never trust a cached transform"),
    ("postmortem", "In hindsight the speed limit belonged in the driver"),
    ("postmortem", "Lessons learned from the demo: bring a spare gripper"),
    ("gotcha", "Gotcha: the driver reports degrees, the planner radians"),
    ("gotcha", "A common pitfall is that homing never finishes when the cable is off"),
    ("gotcha", "It is a trap to read the pose before the first tick"),
    ("gotcha", "Watch out for the reversed polarity on port 3"),
    ("observation", "Noticed a slight wobble at 30 rpm"),
    ("observation", "We discovered a dead zone near the left shelf"),
    ("observation", "It turns out the blue bin is 4 mm lower"),
    ("observation", "Observed 12 ms jitter on the wireless link"),
    ("observation", "Matte tape was found to reduce glare"),
    ("observation", "Noticed that every time it rains the wheels squeak"),
]

CHINESE = [
    ("constraint", "进入工作区前必须按下急停"),
    ("constraint", "禁止在护栏打开时启动主轴"),
    ("constraint", "更换舵机前一定要断电"),
    ("constraint", "负载不能超过 3kg"),
    ("constraint", "电池温度过高时切勿充电"),
    ("constraint", "不要在湿滑地面上高速转弯"),
    ("preference", "推荐用宽夹爪抓托盘"),
    ("preference", "玻璃附近建议使用低速接近"),
    ("preference", "操作员倾向于从右侧递料"),
    ("preference", "抓杯子最好从把手处下手"),
    ("worldview", "软指比硬指更适合抓水果"),
    ("worldview", "有线急停比无线急停可靠"),
    ("worldview", "视觉引导优于盲抓"),
    ("worldview", "以后都按 1kHz 记录力矩"),
    ("worldview", "抓袋子的最佳做法是夹住折边"),
    ("tradeoff", "需要在帧率和曝光之间做权衡"),
    ("tradeoff", "磁吸夹爪的优缺点:快,但只适合钢板"),
    ("tradeoff", "与皮带相比,链条承重更大但噪声大"),
    ("tradeoff", "成本和可靠性之间:选中档减速器"),
    ("tradeoff", "刚度与柔顺性不可兼得"),
    ("root_cause", "掉落的原因是真空管打折"),
    ("root_cause", "由于地面反光,定位会跳变"),
    ("root_cause", "润滑脂干结导致四轴堵转"),
    ("root_cause", "镜头脏污造成漏抓"),
    ("decision", "决定把规划器放在边缘盒子上"),
    ("decision", "肘部采用谐波减速器"),
    ("decision", "标定流程改为开机自动执行"),
    ("decision", "选择轮式底盘,因为走廊地面平整"),
    ("pattern", "空压机一启动,秤总是偏高 5g"),
    ("pattern", "每次开门深度图都会闪烁"),
    ("pattern", "二号相机中午反复出现丢帧"),
    ("pattern", "负载越大,停车距离越长"),
    ("postmortem", "托盘碰撞事故复盘:抱闸未上电"),
    ("postmortem", "这次演示的教训是要带备用夹爪"),
    ("gotcha", "踩坑记录:驱动返回角度,规划器要弧度"),
    ("gotcha", "这里有个坑,第一帧之前读位姿会得到零"),
    ("gotcha", "当心三号端口极性相反"),
    ("observation", "注意到 30rpm 时有轻微晃动"),
    ("observation", "实测无线链路抖动 12ms"),
    ("observation", "在左侧货架附近观察到盲区"),
    ("observation", "测试表明哑光胶带可以减少反光"),
]

# No sign at all, or a word that only looks like one.
PLAIN = [
    "grip_force=12.5N optimal for cylindrical objects",
    "Joint 3 encoder resolution is 4096 counts",
    "Use a trapezoidal velocity profile for the lift",
    "The part stayed trapped between the rollers",
    "Enable vsync on the operator display",
    "Open the workspace in VS Code before building",
    "Mustard jar: grasp width 62 mm",
    "File not found: maps/floor2.yaml",
    "Plan fails if the goal is larger than 2 m away",
    "The move took longer than 5 s",
    "Homing was faster than expected",
    "Neverland demo map loaded at boot",
    "The lessee signs the pallet form",
    "Set the exposure to 8 ms on the wrist camera",
    "Serial port /dev/ttyUSB0 at 115200 baud",
    "The arm must have been bumped overnight",
    "相机曝光设为 8ms",
    "三轴编码器分辨率为 4096",
    "任务优先级设为 3",
    "传动比例为 1:50",
    "用于对比度增强的参数是 1.4",
    "服务发现端口是 7400",
    "夹爪开口 62mm 对应芥末罐",
    "传感器数据不可用时返回空值",
    "路面坑洼处减速到 0.2m/s",
    "选择器开关在控制柜背面",
    "决定性因素是摩擦系数",
]


@pytest.mark.parametrize(("category", "text"), DOCUMENTED)
def test_every_documented_example_lands_in_its_own_category(category: str, text: str) -> None:
    assert classify(text).category == category


@pytest.mark.parametrize(("category", "text"), ENGLISH)
def test_english_sentences(category: str, text: str) -> None:
    assert classify(text).category == category


@pytest.mark.parametrize(("category", "text"), CHINESE)
def test_chinese_sentences(category: str, text: str) -> None:
    assert classify(text).category == category


@pytest.mark.parametrize("text", PLAIN)
def test_a_text_without_a_sign_is_a_technical_note(text: str) -> None:
    assert classify(text) == Classification("code", ("code",))


def test_all_signs_are_tags_and_the_first_is_the_category() -> None:
    found = classify("Found that every time the lamp is on, the marker is lost")
    assert found == Classification("observation", ("observation", "pattern"))


def test_a_kind_that_shows_twice_is_one_tag() -> None:
    assert classify("Lesson: a lesson learned the hard way").tags == ("postmortem",)


@pytest.mark.parametrize(
    ("category", "text"),
    [
        ("postmortem", "Lesson - must check the brake"),
        ("gotcha", "[gotcha] prefer radians, the driver says degrees"),
        ("decision", "Decision: never mind the lint, ship it"),
        ("root_cause", "根因:从不清洁镜头"),
        ("observation", "Observation: the jig must be 2 mm off"),
    ],
)
def test_a_label_in_front_outweighs_the_words_after_it(category: str, text: str) -> None:
    assert classify(text).category == category


def test_words_have_boundaries_beside_chinese_characters_too() -> None:
    assert classify("响应速度vs定位精度").category == "tradeoff"
    assert classify("因此MUST先回零").category == "constraint"


def test_width_and_case_do_not_matter() -> None:
    assert classify("ＮＥＶＥＲ lift by the cable").category == "constraint"
    assert classify("教训：先回零").category == "postmortem"


def test_the_protected_categories() -> None:
    assert set(PROTECTED) == {"constraint", "postmortem", "gotcha"}


@given(st.text(st.characters(), max_size=400))
def test_any_text_has_a_category_that_leads_its_tags(text: str) -> None:
    found = classify(text)
    assert found.tags[0] == found.category
    assert len(set(found.tags)) == len(found.tags)


@pytest.mark.parametrize(
    "unit", ["比", ". ", "favor ", "trading ", "must have ", "一旦", "与", "- ", "we, ", "a" * 7]
)
def test_adversarial_repetition_is_harmless(unit: str) -> None:
    assert classify(unit * 50_000).tags
