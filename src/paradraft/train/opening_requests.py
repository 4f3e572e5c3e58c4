"""Requests that users' turns begin with, by kind, with blanks in braces; what they ask next; and how they put it.

They cover what people ask an assistant at large, were written for this project, and are nobody's test questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from paradraft.train.opening_words import listed

REQUESTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "write": listed("""
            {write} a {tone} {form} about {thing}.; {write} a {form} about {topic}, {length}.; Compose a {form} for
            {audience} about {topic}.; I need a {form} that begins with "{opening}; Draft a {tone} {form} in which
            {name} finds {thing}."""),
        "explain": listed("""
            {explain} {topic} to {audience}.; {explain} {length} how {topic} changed daily life.; How would you
            explain {topic} without technical words?; What is the idea behind {topic}?; Why are {topic} important for
            {audience}?"""),
        "ask": listed("""
            What are {topic} made of?; How do {topic} work when; How many {goods} are in; Why does {topic} matter
            when; When was the first time that {topic}; Who first thought of {topic}?; Where can I find {topic} in
            {place}; Which {goods} are; Is it true that {topic}; Do you know anything about {topic} and; Should I
            worry about {topic}; What happens to {material} when; What causes {topic}; How long does it take to
            {skill}?; Are there any {animal} in {place}; What is the best way to {skill}?; Does {role} need; Could
            {animal} ever; Whose idea was {topic}; Is there a link between {topic} and {topic}?; What if my {goods};
            Can {animal} eat; Why do people in {place}; How far is {place} from; What would {name} do about {matter}?;
            In {field}, what"""),
        "compare": listed("""
            Compare {animal} and {animal} {format}.; What is the difference between {material} and {material}?;
            {language} or {language} for {audience}?; Compare life in {place} with life in {place}.; Which is harder
            to learn, {field} or {field}, and why?"""),
        "summarise": listed("""
            Summarise this {length}: {opening}; Summarise the history of {topic} {length}.; {give} the key points of
            this text: "{opening}; Shorten this message to {person}: {opening}"""),
        "classify": listed("""
            Is the following {labels}? "{opening}; Classify each sentence as {labels}: 1. {opening}; Label this review
            as {labels}: {opening}; Sort these into groups: {animal}, {material}, {goods},"""),
        "role": listed("""
            You are {role}. {name} asks you about {topic}. Answer in a {tone} way.; Pretend to be {role} and talk
            about {topic}.; Let us play a game: you are {role}, and I am {role}. You begin.; Answer as {role} would:
            what do you think of {topic}?"""),
        "plan": listed("""
            Plan {plan}.; Help me plan {plan} with {n} hundred dollars.; Make a schedule for {plan} {format}.; What do
            I need for {plan}?"""),
        "list": listed("""
            List {n} facts about {topic}.; {give} {n} ideas for {plan}.; Name {n} words that rhyme with; List the
            advantages and disadvantages of {topic} {format}.; {n} questions to ask {role}"""),
        "extract": listed("""
            Extract {wanted} from this text {format}: {opening}; Find {wanted} in the paragraph below. {opening};
            Which {wanted} are mentioned here? "{opening}"""),
        "rewrite": listed("""
            Rewrite this in a {tone} tone: {opening}; Translate into {tongue}: {opening}; Correct the grammar:
            {opening}; How do you say "{opening}; Turn this into {tongue}: "{opening}; Make this sentence shorter:
            {opening}; {give} {n} synonyms for"""),
        "code": listed("""
            {write} a {language} function that {code}.; {write} a program in {language} that {code} {length}.; What
            does this {language} code do? ```{start}; Why does my {language} code fail? {start}; How do I {code} in
            {language}; {explain} {field} of computing: what is; {write} a test for a {language} function that
            {code}.; Convert this from {language} to {language}: {start}"""),
        "maths": listed("""
            What is {n} times {n} minus {n}?; Solve for x: {n}x + {n} = {n}{n}; {name} has {n} {goods} and; If {n}
            {goods} cost {n} dollars, how much; What is {n} percent of {n}{n}?; A train leaves {place} at {n} past;
            Find the area of a; Calculate the average of {n}, {n} and {n}.; Is {n}{n} divisible by {n}?; How many ways
            are there to"""),
        "riddle": listed("""
            Tell me a riddle about {topic}.; Solve this riddle: I have {n} {goods} but; {name} is taller than {name},
            and {name} is; What comes next: {n}, {n}, {n},; {n} friends own; Give me a logic puzzle with {n} {goods}.;
            What has {n} {goods} and no {material}?; {name}, {name} and {name} each; Everyone in {place} owns either
            {goods} or; A {tone} puzzle about {thing}:"""),
        "email": listed("""
            {write} an email to {person} about {matter}.; {write} a {tone} reply to {person}: {opening}; Help me tell
            {person} about {matter} {length}.; Draft a text message to {person} about {matter}.; Subject: {matter}."""),
        "review": listed("""
            {write} a {tone} review of {product}.; Review {product} {length}.; Here is my review of {product}:
            {opening}; What should I look for when I buy {product}?"""),
        "how-to": listed("""
            How do I {skill}?; Teach me to {skill} {length}.; What do I need to {skill}?; {give} {n} tips to {skill}.;
            I want to {skill} but; What mistakes do people make when they {skill}?; {skill}, {format}; First steps to
            {skill} for {audience}; Is it hard to {skill}?; {name} wants to {skill} before; The quickest way to
            {skill}, please"""),
        "recipe": listed("""
            {give} a recipe for {dish}.; I have {n} eggs, some {dish} and; How can I make {dish} without an oven?;
            What goes well with {dish}?; A shopping list for {dish} for {n} people"""),
        "advice": listed("""
            I have a problem: {problem}.; {problem} and I do not know what to do.; What would {role} say if
            {problem}?; My friend {name}; I am {n} years old and; Is it normal that"""),
        "imagine": listed("""
            What would happen if {hypothesis}?; Imagine {hypothesis}. Describe {length} a day in {place}.; Suppose
            {hypothesis}. Who; Imagine you are {role}. Describe {thing}."""),
        "argue": listed("""
            Argue for and against {topic}.; Convince {audience} that; What do you think about {topic}?; What is your
            opinion on {topic}?; A {tone} argument against {topic}, please.; Is it wrong to sell {topic}"""),
        "define": listed("""
            Define {topic} {length}.; What does the word "{animal}; Use the words {material} and {topic} in a
            sentence.; What is the opposite of {tone}; What is meant by {topic} in {field}?; Where does the
            expression; What do we call someone who; The term for {topic} that; In {field}, what is the meaning of"""),
        "quiz": listed("""
            Make a quiz with {n} questions about {topic}.; Ask me a question about {field}.; True or false: {opening};
            Write {n} multiple-choice questions on {topic} for {audience}.; Fill in the blank: {opening}"""),
        "history": listed("""
            {explain} the history of {topic} {format}.; Who invented {topic}, and; What was daily life like in {place}
            in 1{n}0?; Name an important event in the history of {field}.; When did people in {place} first"""),
        "data": listed("""
            {give} {n} {goods} with made-up prices {format}.; Turn this into JSON: {name}, {n}, {place}; Make a table
            of {n} cities with; Put these in alphabetical order: {animal}, {goods}, {material}; {write} a SQL query
            that"""),
        "talk": listed("""
            Hi, I am {name} and; Good morning! I am thinking about {topic}; Thanks for the help with {matter}. Now; I
            am bored in {place}.; Tell me a joke about {topic}.; Tell me something about {place}.; Guess what {name}
            said about {topic}; I just came back from {place} and; hey, about {matter}; Can we talk about {topic}?; I
            was wondering about {topic}; My {product} arrived and; Today {person}; {name} says that {topic}; You will
            not believe what {role}; Let us chat about {field}.; I love {topic}, but"""),
    }
)

FOLLOW_UPS = listed("""
    Can you make that shorter?; Now explain it to {audience}.; Why?; Give me {n} more examples.; Rewrite it in a
    {tone} tone.; What about {topic}?; I do not understand; Are you sure?; Translate that into {tongue}.; Thanks!
    Now; Put it {format}.; How does this compare with {topic}?; What would {role} say about it?; Can you give an
    example of; And if {hypothesis}?; Summarise your answer {length}.; What are the drawbacks?; That is wrong,
    because; Which of these is; Tell me more about; Make it about {thing}.; Write a {form} about that.; How do I; Is
    there a simpler way?; Continue.; Where did you; Ok, but; Use {name} and {place} in it.; Ask me a question about
    it.; Write it in {language}.; Who; Now the opposite:; What if
""")

# Around any request, and behind one that is whole. Most stay as they are.
MANNERS_BEFORE = (
    *("{}",) * 22,
    *listed("""
    Please. {}; Hello! {}; Quick question. {}; Hi there, {}; I need your help. {}; For school: {}; I am {role}. {};
    I am new to {field}. {}; My name is {name}. {}; Good evening. {}; This is for {audience}. {}; ok so {};
    While I wait for {matter}: {}; We live in {place}. {}; I have {n} minutes. {}"""),
)
MANNERS_BEHIND = (
    *("{}",) * 8,
    *listed("""
    {} Answer {length}.; {} Answer {format}.; {} Keep it {tone}.; {} Explain your reasoning.; {} Thank you!;
    {} Do not use the word "{animal}".; {} Give an example.; {} It is for {audience}."""),
)
