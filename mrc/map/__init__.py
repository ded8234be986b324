# SPDX-License-Identifier: BSD-2-Clause
"""The fault map: probes that travel in loops over the fabric, and what is wrong from which of them do not come back.

loops        which loops a host sends, as lists of uSIDs
probe        the bytes of one probe
prober       what an agent sends when and what came of it, sans-IO
agent        the prober on sockets, and its line to the collector
components   what may be faulty, and which loops pass it how often
evidence     likelihood of results under faults, and the search for the faults that explain them
inference    results in, named faults with rate, beginning and end out, in virtual time
collector    the socket that agents report to
history      what was found, in SQLite
picture      all of it as one document; page and metrics show it
server       the page, the document and the metrics over HTTP
"""
