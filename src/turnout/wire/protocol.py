"""The number of the language that hub and agents speak. Apart, because clients need it and none of the messages."""

#: Grows with every change that a hub or an agent of before would not understand: a field the hub sends, a file in a run
#: directory. A hub refuses agents of another protocol, and those begin anew with what is installed then.
PROTOCOL = 3

#: What agents of this one and later tell is understood, if they will speak no newer one: the program of a box or a
#: cluster came with them. They get nothing more, finish what they have, and leave.
OLDEST_HEARD = 3
