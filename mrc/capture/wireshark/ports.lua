-- SPDX-License-Identifier: BSD-2-Clause
-- Which packets are ours

local is_our_port = {}
for _, port in ipairs(PORTS) do is_our_port[port] = true end
local udp_ports = DissectorTable.get("udp.port")
local rocev2 = udp_ports:get_dissector(4791)

local function is_mrc(tvb)
  return tvb:captured_len() > 0 and tvb:range(0, 1):uint() >= FIRST_MRC_OPCODE
end

function mrc.dissector(tvb, pinfo, tree)
  -- A port that is not ours but where somebody decodes as MRC counts as ours.
  local to_us = is_our_port[pinfo.dst_port] or pinfo.match_uint == pinfo.dst_port
  if to_us and is_mrc(tvb) then return dissect(tvb, pinfo, tree) end
  if not rocev2 or not (to_us or is_our_port[pinfo.src_port]) then return 0 end
  -- What a damaged packet makes it raise is in the tree already.
  local ended_well, used = pcall(rocev2.call, rocev2, tvb, pinfo, tree)
  return ended_well and used or tvb:captured_len()
end

for _, port in ipairs(PORTS) do udp_ports:add(port, mrc) end

-- The source port is half of the EV, so it may be any number, and Wireshark asks the dissector of the lower port first:
-- a packet that left by uplink 7 looks like an echo. Such packets are found once their frame is dissected; from
-- the second one of a flow on they come here directly.
local overlooked = Proto("mrc_overlooked", "MRC taken for the protocol of its source port")

function overlooked.dissector(tvb, pinfo, tree)
  if seen_in == pinfo.number or not is_our_port[pinfo.dst_port] then return 0 end
  local headers = { udp_headers() }
  local udp = headers[#headers]
  local at = udp and udp.offset + UDP_LENGTH
  -- In the frame, or in what Wireshark reassembled from fragments.
  local source = udp and udp.source
  if not source or at >= source:captured_len() then return 0 end
  if source:range(udp.offset + 2, 2):uint() ~= pinfo.dst_port then return 0 end
  local transport = source:range(at):tvb()
  if not is_mrc(transport) then return 0 end
  pinfo.conversation = mrc
  dissect(transport, pinfo, tree)
  return 0
end

register_postdissector(overlooked)
