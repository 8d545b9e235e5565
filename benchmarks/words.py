"""The vocabulary of the generated robot memories: plain words, one string per kind."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    """The distinct words of `text`, in their order."""
    return tuple(dict.fromkeys(text.split()))


OBJECTS = _words(
    """
    mug tumbler wineglass teapot kettle saucepan skillet wok colander ladle spatula whisk grater
    peeler corkscrew jar carafe thermos lunchbox cutlery plate saucer ramekin casserole pitcher
    apple pear mango avocado lemon onion pumpkin cabbage cauliflower aubergine egg baguette tin
    carton sachet yoghurt cereal flour sponge brush mop bucket broom dustpan towel napkin pillow
    blanket curtain slipper sock shirt trouser jacket scarf glove helmet umbrella backpack suitcase
    laptop keyboard mouse monitor printer cartridge cable adapter charger battery headset router
    tablet camera tripod lens flashlight lantern bulb fuse socket switch plug remote speaker
    book binder folder envelope stapler scissors ruler pencil marker eraser notebook stamp parcel
    screw bolt washer nut rivet bracket hinge latch knob handle spring bearing gear pulley belt
    chain sprocket shaft flange gasket valve nozzle hose pipe elbow coupling manifold piston rod
    cylinder housing bushing spacer clamp dowel plank panel beam tile brick paver sheet foil coil
    spool reel drum barrel crate pallet tote bin drawer tray rack shelf ladder trolley wheelbarrow
    syringe vial ampoule pipette beaker flask cuvette centrifuge stethoscope bandage splint walker
    crutch wheelchair bedpan catheter thermometer mask gown blister inhaler tube petri swab
    seedling tomato lettuce strawberry cucumber pepper vine sapling sprinkler rake shovel hoe
    fence gate hay fleece trough windshield bumper fender tyre rim axle radiator alternator muffler
    dashboard seatbelt mirror wiper headlamp dipstick wrench ratchet screwdriver pliers hammer
    chisel mallet drill sander router jigsaw vise caliper micrometer torch anvil stencil canister
    puppet domino puzzle marble balloon kite racket shuttlecock skateboard bicycle pedal violin
    """
)

MATERIALS = _words(
    """
    ceramic porcelain glass crystal steel stainless aluminium brass copper bronze titanium chrome
    iron zinc lead plastic acrylic polycarbonate nylon silicone rubber latex foam cork wooden oak
    pine bamboo walnut plywood cardboard paper felt cotton wool denim leather suede velvet linen
    canvas polyester carbon fibreglass kevlar concrete granite marble slate clay wax enamelled
    galvanised anodised lacquered laminated quilted braided frosted perforated magnetised
    """
)

SURFACES = _words(
    """
    worktop countertop workbench conveyor turntable tabletop windowsill doorstep carpet rug parquet
    linoleum tarmac gravel turf mat grating ramp platform ledge mezzanine stairs threshold drain
    tarpaulin mattress couch armchair stretcher gurney pedestal plinth mantelpiece lectern fixture
    jig chuck manhole catwalk gantry girder rooftop culvert kerb puddle sawdust rubble snow ice
    """
)

TOOLS = _words(
    """
    gripper suction vacuum finger wrist elbow shoulder forearm thumb palm claw hook magnet tweezer
    scoop dispenser welder spindle deburrer polisher camera lidar radar sonar microphone gyroscope
    accelerometer encoder resolver tachometer potentiometer odometer barometer hygrometer photodiode
    laser projector illuminator beacon antenna tether winch hoist lift tilt pan gimbal turret
    caster wheel track flipper propeller rudder thruster stabiliser bumper skirt actuator solenoid
    servo stepper clutch brake damper compressor manipulator exoskeleton
    """
)

PLACES = _words(
    """
    kitchen pantry scullery larder bathroom hallway corridor lobby foyer atrium balcony veranda
    attic cellar garage driveway courtyard orchard greenhouse vineyard barn stable paddock silo
    warehouse depot hangar dock wharf quay shipyard terminal concourse platform tunnel bridge
    foundry forge smelter refinery brewery bakery dairy cannery abattoir laundry tannery sawmill
    laboratory cleanroom darkroom observatory library archive museum gallery theatre auditorium
    clinic ward pharmacy nursery kindergarten classroom gymnasium stadium arena pool sauna
    office boardroom mailroom canteen cloakroom stairwell elevator mezzanine basement substation
    quarry mine shaft dam reservoir aqueduct lighthouse marina runway apron carpark forecourt
    showroom boutique supermarket kiosk marketplace checkout loading staging sorting packing
    """
)

CONDITIONS = _words(
    """
    wet damp dusty greasy oily soapy sticky frozen frosty icy hot warm cold lukewarm humid dry
    dim bright glaring shadowed foggy smoky windy rainy stormy muddy sandy noisy silent crowded
    empty overloaded unbalanced tilted crooked cracked chipped dented scratched rusted corroded
    worn loose tight jammed misaligned uncalibrated calibrated recharged depleted overheated
    throttled lagging saturated occluded reflective transparent translucent opaque matte glossy
    fragile brittle flexible stiff heavy lightweight bulky slender hollow sealed unsealed folded
    stacked nested upright inverted tangled coiled stretched compressed swollen leaking spilled
    vibrating rattling drifting spinning unplugged powered
    """
)

ACTIONS = _words(
    """
    grasping lifting carrying lowering placing stacking unstacking sorting rotating tilting pouring
    stirring scooping wiping scrubbing polishing sanding drilling fastening unscrewing tightening
    inserting extracting aligning threading bending folding unfolding rolling wrapping unwrapping
    sealing opening closing pushing pulling dragging sliding throwing catching handing receiving
    scanning inspecting measuring weighing counting labelling photographing mapping docking
    undocking charging towing following overtaking reversing climbing descending crossing hovering
    landing welding soldering gluing painting spraying cutting slicing peeling chopping kneading
    watering pruning harvesting planting mowing sweeping vacuuming mopping ironing hanging
    """
)

FAILURES = _words(
    """
    slip drop collision overshoot undershoot oscillation stall timeout misread misgrasp jam spill
    scratch crack dent tear bounce wobble drift blackout brownout reboot disconnect desync
    overcurrent overtemperature undervoltage backlash creep shear snag tangle derailment puncture
    leak clog splash misfire echo ghosting flicker blur glare dropout deadlock singularity
    """
)

CAUSES = _words(
    """
    condensation grease lint pollen static friction inertia resonance parallax distortion
    interference crosstalk latency jitter quantisation hysteresis fatigue corrosion erosion
    contamination misalignment miscalibration eccentricity play slack preload sag buckling draught
    turbulence sunlight reflection refraction shadow vibration magnetism humidity evaporation
    sedimentation oxidation fraying undersizing oversizing firmware bandwidth congestion clipping
    saturation offset bias gain ripple
    """
)

# Sounds that proper names are made of.
ONSETS = _words("b br c ch cl d dr f fl g gr h j k kr l m n p pl pr qu r s sh sk st t th tr v w z")
VOWELS = _words("a e i o u ai ea ie oa ou")
CODAS = _words("l n r s t x m nd rk st th ck ll ss ng")

QUANTITIES = (
    ("grip force", "N", 1.0, 60.0),
    ("approach speed", "mm/s", 5.0, 900.0),
    ("torque limit", "Nm", 0.1, 45.0),
    ("lift height", "cm", 1.0, 180.0),
    ("tilt angle", "degrees", 1.0, 88.0),
    ("suction pressure", "kPa", 5.0, 95.0),
    ("dwell time", "seconds", 0.1, 30.0),
    ("surface temperature", "°C", -20.0, 220.0),
    ("payload", "kg", 0.05, 40.0),
    ("exposure time", "ms", 1.0, 120.0),
    ("clearance", "mm", 0.5, 75.0),
    ("supply voltage", "V", 3.0, 52.0),
    ("stopping distance", "m", 0.1, 9.0),
    ("sampling rate", "Hz", 2.0, 980.0),
    ("wheel slip", "percent", 0.5, 70.0),
    ("relative humidity", "percent", 8.0, 99.0),
    ("heading error", "degrees", 0.2, 40.0),
    ("noise level", "dB", 20.0, 110.0),
    ("feed rate", "pieces per minute", 2.0, 240.0),
    ("battery level", "percent", 3.0, 99.0),
)

STATEMENTS = (
    "{quantity} of {number} {unit} works for {action} the {condition} {material} {object} {code}",
    "{action} the {name} {object} from the {surface} in the {place} takes {quantity} {number} "
    "{unit}",
    "the {tool} reports {number} {unit} {quantity} while {action} a {material} {object} near "
    "{name}",
    "{condition} {object} {code} gave a {failure} on the {surface} at {quantity} {number} {unit}",
    "found that the {name} {place} keeps its {material} {object} on the {condition} {surface} "
    "{code}, {quantity} {number} {unit}",
    "must never exceed {number} {unit} {quantity} when {action} the {material} {object} {code}",
    "{failure} of the {tool} was caused by {cause}; {number} {unit} {quantity} cured it at {name}",
    "every time the {surface} is {condition}, {action} the {object} {code} needs {number} "
    "{unit} more {quantity}",
    "prefer the {name} {tool} over the {material} one for {action} a {condition} {object}, "
    "{quantity} {number} {unit}",
    "lesson from {name} {place}: check {cause} before {action} any {condition} {object} {code} "
    "above {number} {unit} {quantity}",
    "robot {name} met a {condition} {surface} in {place} {code} and cut {quantity} to {number} "
    "{unit}",
    "decided on {number} {unit} {quantity} instead of a new {tool} for {action} {material} "
    "{object} stock at {name}",
    "in the {name} {place} a {material} {object} stands {number} cm from the {surface}, marked "
    "{code}, usually {condition}",
    "{cause} in {tool} {code} shifts its {quantity} by {number} {unit} after {action} in the "
    "{place}",
    "noticed {cause} around {name} {place}: {quantity} of its {material} {object} rises to "
    "{number} {unit} before a {failure}",
    "pitfall: {code} looks {condition} to the {tool} at {name}, but the {material} {object} "
    "weighs {number} kg",
    "{name} asked for {action} the {object} {code} at most {number} {unit} {quantity} beside "
    "the {surface}",
    "route via {place} {code} saves {number} seconds when the {surface} at {name} is {condition}",
    "speed vs accuracy at {name}: {quantity} {number} {unit} for {action} {condition} {object} "
    "lots",
    "the {object} called {name} opens by {action} its {material} lid with {number} {unit} "
    "{quantity}",
    "{tool} {code} needs recalibration after {number} cycles of {action} {condition} {object} "
    "parts",
    "nobody at the {name} {place} wants {action} near the {surface} once {quantity} passes "
    "{number} {unit}",
)

TAILS = (
    "",
    "",
    "and the {other_object} must be moved first",
    "unless the {other_tool} is {other_condition}",
    "with the {other_tool} held {other_condition}",
    "as seen in {other_place} trial {serial}",
    "confirmed {serial} times by {other_name}",
    "because of {other_cause} in the {other_place}",
    "before {other_action} the {other_object}",
    "while {other_name} watches the {other_surface}",
    "so keep the {other_material} {other_object} away",
    "after shift {serial} in the {other_place}",
    "otherwise expect a {other_failure} near the {other_surface}",
)

QUERIES = (
    "how much {quantity} for {action} a {condition} {material} {object}",
    "where does {name} keep the {material} {object}",
    "what caused the {failure} of the {tool} in the {place}",
    "{action} {object} on {condition} {surface}",
    "which {tool} is best for {action} {material} {object} parts",
    "{cause} problems with the {tool} near the {surface}",
    "is the {surface} in the {place} {condition}",
    "safe {quantity} around the {place} of {name}",
    "lessons about {action} {condition} {object} items",
    "{name} {object} {failure}",
)
