-- SPDX-License-Identifier: BSD-2-Clause
-- What packets have to do with each other: streams, retransmissions, what acknowledges what
--
-- A request names only the responder's QPN, an answer only the requestor's; but a SACK and a NACK hold the low 16 bits
-- of the responder's as spdcid. So packets belong to a stream by QPN and by a PSN close by, over all planes.

local NEAR_PSN = 2 ^ 16

-- By frame number what is known of it; streams in order of appearance, and by the requests' QPN and its low 16 bits.
local facts, streams, by_qpn, by_low_16

local function forget()
  facts, streams, by_qpn, by_low_16 = {}, {}, {}, {}
end
forget()
-- Wireshark calls it before it reads a file.
mrc.init = forget

-- How far `psn` is ahead of `other`; negative behind it.
local function ahead(psn, other)
  local distance = (psn - other) % PSNS
  return distance < PSNS / 2 and distance or distance - PSNS
end

local function nearest(candidates, psn)
  local best, least = nil, NEAR_PSN + 1
  for _, stream in ipairs(candidates or {}) do
    local distance = math.abs(ahead(psn, stream.latest))
    if distance < least then best, least = stream, distance end
  end
  return best
end

local function append(map, key, value)
  map[key] = map[key] or {}
  map[key][#map[key] + 1] = value
end

local function new_stream(qpn, psn, pinfo)
  local stream = {
    index = #streams, qpn = qpn, latest = psn, frames = {}, edge = nil, covered = {},
    source = tostring(pinfo.src), destination = tostring(pinfo.dst), begin = pinfo.abs_ts,
    requests = 0, answers = 0, payload = 0, retransmissions = 0, finish = pinfo.abs_ts,
  }
  streams[#streams + 1] = stream
  append(by_qpn, qpn, stream)
  append(by_low_16, qpn % 0x10000, stream)
  return stream
end

-- A data packet: which stream, and whether its PSN was there before.
local function follow_request(bth, payload, trimmed, pinfo)
  local stream = nearest(by_qpn[bth.dqp], bth.psn) or new_stream(bth.dqp, bth.psn, pinfo)
  local fact = { stream = stream.index, time = pinfo.abs_ts, trimmed = trimmed, again = bth.rtx == 1 }
  local before = stream.frames[bth.psn]
  -- One that is ahead of all others is a new packet, whose PSN came round again.
  if before and ahead(bth.psn, stream.latest) <= 0 then
    if bth.rtx == 1 then
      fact.retransmission_of = before[1]
      stream.retransmissions = stream.retransmissions + 1
    end
    before[#before + 1] = pinfo.number
  else
    stream.frames[bth.psn] = { pinfo.number }
  end
  -- What had arrived when it was sent again is covered by the next SACK there is.
  if stream.edge and ahead(stream.edge, bth.psn) >= 0 then stream.covered[#stream.covered + 1] = pinfo.number end
  if ahead(bth.psn, stream.latest) > 0 then stream.latest = bth.psn end
  stream.requests, stream.payload, stream.finish = stream.requests + 1, stream.payload + payload, pinfo.abs_ts
  facts[pinfo.number] = fact
end

local function acknowledge(stream, psn, number)
  for _, frame in ipairs(stream.frames[psn] or {}) do
    local fact = facts[frame]
    -- Of a trimmed packet nothing arrived.
    if fact and not fact.acked_in and not fact.trimmed and frame < number then fact.acked_in = number end
  end
end

-- The low half of the responder's QPN: spdcid, or dpdcid where it is spdcid that names the packet's own receiver.
local function responder_low_16(header, bth)
  if header.spdcid == bth.dqp % 0x10000 then return header.dpdcid end
  return header.spdcid
end

local function follow_sack(seth, bth, pinfo)
  local stream = nearest(by_low_16[responder_low_16(seth, bth)], seth.cack_psn)
  if not stream then return end
  local fact = { stream = stream.index }
  facts[pinfo.number] = fact
  stream.answers, stream.finish = stream.answers + 1, pinfo.abs_ts
  for _, frame in ipairs(stream.covered) do
    local sent = facts[frame]
    if sent and not sent.trimmed and not sent.acked_in then sent.acked_in = pinfo.number end
  end
  stream.covered = {}
  local edge = stream.edge
  if edge and ahead(seth.cack_psn, edge) > 0 and ahead(seth.cack_psn, edge) <= NEAR_PSN then
    for step = 1, ahead(seth.cack_psn, edge) do acknowledge(stream, (edge + step) % PSNS, pinfo.number) end
  elseif not edge then
    -- The first one of a capture: what it covers of what was seen.
    for psn in pairs(stream.frames) do
      if ahead(seth.cack_psn, psn) >= 0 then acknowledge(stream, psn, pinfo.number) end
    end
  end
  if not edge or ahead(seth.cack_psn, edge) > 0 then stream.edge = seth.cack_psn end
  for _, psn in ipairs(psns_in_bitmap(seth)) do acknowledge(stream, psn, pinfo.number) end
  if seth.pr ~= 0 then return end
  local trigger = (seth.cack_psn + seth.ack_psn_offset) % PSNS
  acknowledge(stream, trigger, pinfo.number)
  local frames = stream.frames[trigger]
  if frames then
    -- The latest of its transmissions. Of a PSN that was sent again nobody knows which one it was.
    fact.ack_of = frames[#frames]
    local sent = facts[fact.ack_of]
    if sent and #frames == 1 and not sent.again then fact.rtt = pinfo.abs_ts - sent.time end
  end
end

local function follow_nack(neth, bth, pinfo)
  local stream = nearest(by_low_16[responder_low_16(neth, bth)], neth.nack_psn)
  if not stream then return end
  local frames = stream.frames[neth.nack_psn]
  facts[pinfo.number] = { stream = stream.index, nack_of = frames and frames[#frames] }
  stream.answers, stream.finish = stream.answers + 1, pinfo.abs_ts
end

local function is_request(opcode)
  for _, name in ipairs(opcode.headers) do
    if name == "meth" or name == "reth" then return true end
  end
  return false
end

-- `values` are those of the packet's headers by name. Each frame is followed once, in the order of the capture.
local function follow(bth, opcode, values, payload, trimmed, pinfo)
  if pinfo.visited or facts[pinfo.number] then return end
  if values.seth then
    follow_sack(values.seth, bth, pinfo)
  elseif values.neth then
    follow_nack(values.neth, bth, pinfo)
  elseif is_request(opcode) then
    follow_request(bth, payload, trimmed, pinfo)
  end
end

local function show_facts(root, number)
  local fact = facts[number]
  if not fact then return end
  root:add(fields.stream, fact.stream):set_generated()
  for _, name in ipairs({ "retransmission_of", "acked_in", "ack_of", "nack_of" }) do
    if fact[name] then
      local item = root:add(fields[name], fact[name])
      item:set_generated()
      if name == "retransmission_of" then item:add_proto_expert_info(experts.retransmission) end
    end
  end
  if fact.rtt then
    local whole = math.floor(fact.rtt)
    root:add(fields.ack_rtt, NSTime.new(whole, math.floor((fact.rtt - whole) * 1e9 + 0.5))):set_generated()
  end
end

-- tshark prints the streams at the end: `-q -o mrc.conversations:TRUE`.
if not gui_enabled() then
  local listener = Listener.new("frame", "mrc")
  function listener.packet() end
  function listener.draw()
    if not mrc.prefs.conversations then return end
    local form = "%6s  %-39s  %-39s  %8s  %9s  %9s  %12s  %7s  %10s"
    print(form:format("stream", "from", "to", "QPN", "requests", "answers", "payload", "resent", "seconds"))
    for _, stream in ipairs(streams) do
      print(form:format(stream.index, stream.source, stream.destination, ("0x%06x"):format(stream.qpn),
        stream.requests, stream.answers, stream.payload, stream.retransmissions,
        ("%.6f"):format(stream.finish - stream.begin)))
    end
  end
end
