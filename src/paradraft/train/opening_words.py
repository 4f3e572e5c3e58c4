"""What fills the blanks of drawn requests: topics, forms, tones, roles and the like, written for this project."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


def listed(text: str) -> tuple[str, ...]:
    """Return what stands between semicolons, each in one line."""
    return tuple(" ".join(part.split()) for part in text.split(";") if part.strip())


_TOPICS = """
tides; volcanoes; honey bees; glaciers; the water cycle; coral reefs; magnets; rainbows; vaccines; the immune system;
sleep; memory; gravity; comets; the phases of the moon; fossils; earthquakes; photosynthesis; yeast; antibiotics;
friction; batteries; solar panels; wind power; nuclear fusion; steam engines; bicycles; bridges; elevators; clocks;
paper; glass; concrete; steel; silk; salt; chocolate; coffee; tea; olive oil; rice; cheese; bread; the potato;
inflation; interest rates; pensions; taxes; insurance; trade unions; supply and demand; the stock market; budgeting;
startups; remote work; advertising; customer service; recycling; public transport; housing; city parks; traffic; the
Silk Road; the printing press; the Roman army; medieval castles; the age of sail; the Inca; the Vikings; the
telegraph; railways; the Olympic Games; the Cold War; the French Revolution; ancient Egypt; the Ottoman Empire;
constitutions; juries; elections; human rights; privacy; copyright; free speech; immigration; climate policy; jazz;
the violin; folk songs; opera; ballet; cubism; photography; film editing; theatre masks; haiku; myths; fairy tales;
detective novels; science fiction; handwriting; dictionaries; dialects; sign language; accents; punctuation;
probability; prime numbers; fractions; triangles; statistics; logic puzzles; infinity; algorithms; sorting; recursion;
databases; passwords; encryption; machine learning; search engines; open source; spreadsheets; robots; drones;
satellites; chess; football; climbing; swimming; yoga; running shoes; gardening; knitting; pottery; baking; camping;
fishing; birds of prey; whales; wolves; ants; octopuses; horses; cats; spiders; bats; mushrooms; oak trees; roses;
deserts; rain forests; the Arctic; islands; rivers; time zones; maps; compasses; friendship; courage; boredom;
jealousy; habits; patience; honesty; leadership; grief; parenting; teamwork; meditation; dreams; first impressions;
ageing; luck
"""

_THINGS = """
a broken umbrella; a lost key; a talking parrot; a lighthouse; an old piano; a paper boat; a night train; a blue
scarf; a forgotten letter; a clock that runs backwards; a snowed-in cabin; a market stall; a stray dog; a map with a
hole in it; a garden behind a wall; a lift that stops between floors; a jar of buttons; a borrowed coat; a silver
coin; a kite; a small bakery; a rusty bicycle; a village without bridges; a robot that cannot lie; a shy dragon; a
stolen violin; the last bus home; a power cut; a wedding in the rain; a river that changes its course; a library at
night; a seed
"""

WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "write": listed("""
            Write; Write; Compose; Draft; Create; Make up; I want you to write; I need; Can you write; Let us write;
            Help me write; Try to write; Invent; Start; Prepare; Could you please produce"""),
        "give": listed("""
            Give me; Give me; List; Show me; Suggest; I would like; Can you give me; Think of; I am looking for; Find
            me; Provide; Recommend; Do you have; Come up with; Tell me"""),
        "explain": listed("""
            Explain; Explain; Describe; Help me understand; Tell me; Teach me; Outline; Break down; Clarify;
            I never understood; Show; Can you explain; Discuss; Give an overview of"""),
        "topic": listed(_TOPICS),
        "thing": listed(_THINGS),
        "form": listed("""
            poem; short story; limerick; song; dialogue; monologue; diary entry; fable; speech; letter; blog post;
            news report; advertisement; toast; bedtime story; scene for a play; haiku; essay; riddle; review; product
            description; press release; eulogy; postcard; instruction leaflet; myth; ghost story; summary"""),
        "tone": listed("""
            formal; friendly; funny; dry; poetic; blunt; cheerful; gloomy; sarcastic; warm; neutral; old-fashioned;
            dramatic; calm; persuasive; childlike; scholarly; apologetic; excited; modest"""),
        "length": listed("""
            in one sentence; in two sentences; in three short paragraphs; in under {n} words; briefly; in detail; in
            about a hundred words; in one paragraph; step by step; in five bullet points; in a few words"""),
        "format": listed("""
            as a table; as a numbered list; as bullet points; as JSON; as plain text; in Markdown; as a dialogue; as
            comma-separated values; with a heading for each part; as questions and answers; as a timeline; with an
            example for each; with the most important first"""),
        "audience": listed("""
            a child of six; a beginner; my grandmother; a busy manager; a high-school student; an engineer; someone
            who hates science; a new colleague; a tourist; a jury; a class of ten-year-olds; a patient; a farmer; my
            neighbour; an expert; someone learning English"""),
        "role": listed("""
            a retired sailor; a strict librarian; a grumpy wizard; a museum guide; a job interviewer; a chess coach; a
            space pilot; a medieval blacksmith; a doctor in a small town; a tax adviser; a sports reporter; a
            philosopher; a gardener; a detective; a hotel receptionist; a weather forecaster; a pirate; a patient
            teacher; a historian; an old oak tree; a travel agent; a film critic; a nutritionist; a ghost"""),
        "person": listed("""
            my boss; my landlord; a customer; my teacher; a friend; the city council; a colleague; my aunt; a job
            applicant; our supplier; the neighbours; a professor; my team; an insurance company; the editor; a client;
            my brother; a volunteer; the school; a hotel"""),
        "name": listed("""
            Amara; Bruno; Chen; Dalia; Emil; Farah; Goran; Hana; Ivo; Jun; Kofi; Lena; Mateo; Nadia; Omar; Petra;
            Quentin; Rosa; Sven; Tariq; Uma; Vera; Wanda; Yusuf; Zoe"""),
        "matter": listed("""
            a late delivery; a broken heater; moving a meeting; a day off; a refund; a pay rise; a lost parcel; a
            birthday party; a noisy dog; a change of address; a recommendation; a missed deadline; a new schedule; a
            charity run; a cancelled flight; thanks for dinner; a spelling mistake on an invoice; a question about the
            contract; a job offer; an invitation to lunch; a complaint about the food"""),
        "skill": listed("""
            tie a bowline; bake sourdough bread; change a bicycle tyre; write a CV; learn the guitar; grow tomatoes on
            a balcony; save money each month; fall asleep faster; clean a cast-iron pan; read faster; prepare for an
            exam; start running; sew on a button; plan a road trip; set up a home network; make yoghurt; give a talk
            without fear; train a puppy; remove a coffee stain; organise a wardrobe; pitch a tent; take better
            photographs; learn a language; repair a dripping tap; keep a diary; negotiate a price"""),
        "plan": listed("""
            a weekend in {place}; a birthday party for {n} guests; a week of cheap dinners; a garden; a study
            schedule; a house move; a small wedding; a workout routine; a school trip; a book club; a website launch;
            a picnic; a charity concert; a training day for {audience}; a winter hike; a garage sale"""),
        "place": listed("""
            Lisbon; Kyoto; Nairobi; Oslo; Lima; Istanbul; Montreal; Prague; Hanoi; Marrakesh; Dublin; Cape Town;
            Vienna; Mumbai; Havana; Edinburgh; Seoul; Warsaw; Quito; Athens; Sydney; Chicago; a small village"""),
        "language": listed("""
            Python; JavaScript; C; C++; Java; Rust; Go; SQL; Bash; TypeScript; Ruby; Haskell; R; Kotlin; PHP; HTML and
            CSS"""),
        "code": listed("""
            reverses a string; counts the words in a file; checks whether a number is prime; merges two sorted lists;
            finds duplicates in a list; parses a date; computes the greatest common divisor; sorts a dictionary by its
            values; removes empty lines; validates an email address; converts Celsius to Fahrenheit; finds the longest
            word; flattens a nested list; reads a CSV file; draws a triangle of stars; simulates a dice roll; counts
            vowels; rotates a matrix; implements a stack; searches a sorted array; prints a calendar; tells whether a
            word is a palindrome; groups people by age; rounds a price; retries a failed request"""),
        "start": listed("""def; for i in range(; class; function; int main(; SELECT; import; while; let; if x"""),
        "tongue": listed("""
            French; Spanish; German; Italian; Portuguese; Dutch; Latin; Swahili; Polish; Turkish; Japanese; Hindi;
            plain English; the language of Shakespeare; legal English; slang; pirate speech"""),
        "opening": listed("""
            The; In the spring of; Last night; Dear; Our company; Although; When I was; Scientists at; There are;
            After; On Monday; It was; A recent study; Every year; My first; Nobody; During the; For sale:; Thank you
            for; Breaking:; Once; {name} and {name}; The old; According to; Most people"""),
        "animal": listed("cats; dogs; crows; dolphins; horses; bees; frogs; owls; sharks; elephants; goats; snails"),
        "material": listed("wood; steel; glass; wool; cotton; plastic; clay; leather; copper; paper; stone; bamboo"),
        "dish": listed("""
            lentil soup; pancakes; fried rice; a tomato salad; apple pie; curry; an omelette; dumplings; pasta with
            mushrooms; bean stew; flat bread; a birthday cake; roast vegetables; porridge; fish tacos"""),
        "field": listed("""
            physics; biology; history; economics; music; grammar; geography; chemistry; law; medicine; computing;
            sport; art; psychology; astronomy; cooking; philosophy; statistics; politics; engineering"""),
        "labels": listed("""
            positive, negative or neutral; urgent or not urgent; fact or opinion; spam or not spam; formal or
            informal; animal, plant or mineral; question, order or statement; true or false; easy or hard; sport,
            politics, science or culture"""),
        "wanted": listed("""
            names; dates; places; prices; numbers; verbs; the main idea; email addresses; the people and their jobs;
            every animal; the arguments on both sides; the steps; all adjectives; the conclusion"""),
        "goods": listed(
            "apples; tickets; marbles; books; eggs; bricks; coins; stamps; pencils; kilometres; litres; boxes"
        ),
        "hypothesis": listed("""
            the moon disappeared; nobody needed sleep; animals could talk; money were abolished; we could read minds;
            it never rained again; everyone had the same name; the internet stopped for a week; people lived for three
            hundred years; gravity were half as strong; all cars vanished; trees could walk"""),
        "problem": listed("""
            my laptop is slow; my plants keep dying; I cannot sleep; my flat is too noisy; I argue with my sister; my
            code does not compile; the bread does not rise; I am always late; my back hurts; the printer jams; I
            forget names; I feel lonely; the bike makes a strange sound; I have too many meetings; I got a low mark;
            my phone does not charge; the cat scratches the sofa; I am nervous about an interview"""),
        "product": listed("""
            a pair of headphones; a vacuum cleaner; a tent; a novel; a kettle; a phone; a city hotel; a hiking boot; a
            board game; a cooking course; a film; a bakery; a language app; a desk lamp; a museum"""),
        "n": tuple(
            map(str, (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 18, 20, 24, 25, 30, 36, 40, 45, 50, 60, 75, 96))
        ),
    }
)
