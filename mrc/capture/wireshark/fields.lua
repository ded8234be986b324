-- SPDX-License-Identifier: BSD-2-Clause
-- The protocol, its preferences, its fields and what it warns of.

local PSNS = 2 ^ 24
local MPR_UNIT, RECEIVED_UNIT, TIMESTAMP_UNIT_NS = 128, 256, 128

local mrc = Proto("mrc", "Multipath Reliable Connection")
mrc.prefs.check_icrc = Pref.bool("Check the ICRC", true, "Work out the ICRC of every MRC packet and compare")
mrc.prefs.conversations = Pref.bool("Print conversations", false, "tshark prints a table of streams at the end")
mrc.prefs.dscp_trimmed = Pref.uint("TRIMMED codepoint", DSCP_TRIMMED, "The DSCP that switches give a packet they trim")
mrc.prefs.dscp_trimmed_lasthop = Pref.uint("TRIMMED_LASTHOP codepoint", DSCP_TRIMMED_LASTHOP,
  "The DSCP that a switch gives a packet it trims on the last hop")

local fields = {
  ev = ProtoField.uint32("mrc.ev", "EV", base.HEX),
  payload = ProtoField.bytes("mrc.payload", "Payload"),
  payload_length = ProtoField.uint32("mrc.payload.length", "Payload length", base.DEC),
  padding = ProtoField.bytes("mrc.padding", "Padding"),
  icrc = ProtoField.none("mrc.icrc", "ICRC"),
  icrc_crc = ProtoField.uint32("mrc.icrc.crc", "crc", base.HEX),
  icrc_expected = ProtoField.uint32("mrc.icrc.expected", "expected", base.HEX),
  icrc_ok = ProtoField.bool("mrc.icrc_ok", "icrc_ok"),
  trimmed = ProtoField.bool("mrc.trimmed", "trimmed"),
  malformed = ProtoField.string("mrc.malformed", "malformed"),
  stream = ProtoField.uint32("mrc.stream", "Stream", base.DEC),
  retransmission_of = ProtoField.framenum("mrc.retransmission_of", "Retransmission of frame", base.NONE),
  acked_in = ProtoField.framenum("mrc.acked_in", "Acknowledged in frame", base.NONE, frametype.ACK),
  ack_of = ProtoField.framenum("mrc.ack_of", "Triggered by frame", base.NONE, frametype.ACK),
  nack_of = ProtoField.framenum("mrc.nack_of", "Refuses frame", base.NONE),
  ack_rtt = ProtoField.relative_time("mrc.ack_rtt", "From that frame to this one"),
}

local function all_fields()
  local list = {}
  for _, field in pairs(fields) do list[#list + 1] = field end
  for name, header in pairs(HEADERS) do
    header.proto_field = ProtoField.none("mrc." .. name, name:upper())
    list[#list + 1] = header.proto_field
    for _, field in ipairs(header.fields) do
      local filter = "mrc." .. name .. "." .. field.name
      if field.kind == "bytes" then
        field.proto_field = ProtoField.bytes(filter, field.name)
      else
        field.proto_field = ProtoField[field.kind](filter, field.name, field.base, field.names, field.mask)
      end
      field.reserved = field.name:find("^reserved") ~= nil
      list[#list + 1] = field.proto_field
    end
  end
  return list
end

mrc.fields = all_fields()

local experts = {
  malformed = ProtoExpert.new("mrc.expert.malformed", "Malformed MRC packet", expert.group.MALFORMED,
    expert.severity.ERROR),
  cut_short = ProtoExpert.new("mrc.expert.cut_short", "The capture did not keep all headers", expert.group.UNDECODED,
    expert.severity.NOTE),
  icrc = ProtoExpert.new("mrc.expert.icrc", "Wrong ICRC", expert.group.CHECKSUM, expert.severity.ERROR),
  tver = ProtoExpert.new("mrc.expert.tver", "TVer is not 0: a receiver drops this", expert.group.PROTOCOL,
    expert.severity.WARN),
  retransmission = ProtoExpert.new("mrc.expert.retransmission", "Retransmission", expert.group.SEQUENCE,
    expert.severity.NOTE),
  trimmed = ProtoExpert.new("mrc.expert.trimmed", "Trimmed by a switch", expert.group.SEQUENCE, expert.severity.NOTE),
}
mrc.experts = { experts.malformed, experts.cut_short, experts.icrc, experts.tver, experts.trimmed,
  experts.retransmission }
