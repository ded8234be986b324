-- SPDX-License-Identifier: BSD-2-Clause
-- One packet

-- `sent` is how many bytes the packet had from the BTH on, `kept` how many of them the capture has.
local Packet = {}
Packet.__index = Packet

function Packet.new(tvb, pinfo)
  local place = place_in_frame(tvb, pinfo)
  local self = setmetatable({ tvb = tvb, place = place, words = {}, values = {}, pinfo = pinfo }, Packet)
  self.sent = place and math.max(0, place.finish - place.bth) or tvb:reported_len()
  self.kept = math.min(tvb:captured_len(), self.sent)
  self.short = place and place.short
  self.cut = self.kept < self.sent
  self.ev = entropy_value(place, pinfo)
  return self
end

function Packet:header(name, at)
  local header = HEADERS[name]
  local range = self.tvb:range(at, header.length)
  local branch = self.root:add(header.proto_field, range)
  local values = {}
  for _, field in ipairs(header.fields) do
    values[field.name] = value_of(field, range:range(field.at, field.length))
  end
  for _, field in ipairs(header.fields) do
    if is_there(field, values) then
      local item = branch:add(field.proto_field, range:range(field.at, field.length))
      local remark = REMARKS[field.name] and REMARKS[field.name](values)
      if remark then item:append_text((" (%s)"):format(remark)) end
      if name == "bth" and field.name == "tver" and values.tver ~= 0 then
        item:add_proto_expert_info(experts.tver)
      end
    end
  end
  return values
end

function Packet:say(words)
  if words ~= "" then self.words[#self.words + 1] = words end
end

-- A switch cut it: a TRIMMED codepoint, and it is not whole. It is too short for its opcode's headers and ICRC, or
-- shorter than an IP or UDP length in it says, or its ICRC is wrong. Of what the capture cut only the lengths tell.
function Packet:is_trimmed(all_headers)
  local place = self.place
  if not place or not has_trimmed_dscp(place) then return false end
  if self.short or self.sent < all_headers + ICRC_LENGTH then return true end
  if self.cut then return false end
  local icrc_at = self.sent - ICRC_LENGTH
  return icrc_of(place, place.bth + icrc_at) ~= self.tvb:range(icrc_at, ICRC_LENGTH):le_uint()
end

-- Adds the headers as far as they are there. Returns where they end and, when one is missing, its name.
function Packet:headers(bth, opcode)
  local at = BTH_LENGTH
  for _, name in ipairs(opcode.headers) do
    if name ~= "tseth" or bth.ts ~= 0 then
      if self.kept < at + HEADERS[name].length then return at, name end
      self.values[name] = self:header(name, at)
      self:say(WORDS[name](self.values[name]))
      at = at + HEADERS[name].length
    end
  end
  return at, nil
end

-- What follows the headers. Returns payload length, where the ICRC is or nil, and what is wrong or nil.
function Packet:rest(bth, opcode, at, missing, all_headers)
  local left, pad = self.sent - at, bth.pad
  if self.trimmed then return left, nil, nil end
  if self.short then return left, nil, self.short end
  if opcode == nil then
    local reason = ("unknown_opcode: 0x%02x"):format(bth.opcode)
    if self.cut or left < ICRC_LENGTH then return left, nil, reason end
    return left - ICRC_LENGTH - math.min(pad, left - ICRC_LENGTH), self.sent - ICRC_LENGTH, reason
  end
  if missing and self.cut then
    local reason = ("cut_short: the capture kept %d bytes of headers, they take %d"):format(self.kept, all_headers)
    return self.kept - at, nil, reason
  elseif missing then
    local reason = ("short_header: %s takes %d bytes, %d are left"):format(missing, HEADERS[missing].length, left)
    return left, nil, reason
  end
  local body = left - ICRC_LENGTH
  local icrc_at = not self.cut and self.sent - ICRC_LENGTH or nil
  if body < 0 then
    return left, nil, ("no_icrc: %d bytes follow the headers, the ICRC takes 4"):format(left)
  elseif pad > body then
    return self.cut and body or 0, icrc_at, ("bad_pad: pad count %d, %d bytes of payload"):format(pad, body)
  elseif body > 0 and not opcode.has_payload and not self.cut then
    return body - pad, icrc_at, ("unexpected_payload: %d bytes after a %s"):format(body, opcode.name)
  end
  return body - pad, icrc_at, nil
end

function Packet:payload(at, length, icrc_at)
  if length > 0 then
    local here = math.min(length, self.kept - at)
    if here > 0 then self.root:add(fields.payload, self.tvb:range(at, here)) end
    self.root:add(fields.payload_length, length):set_generated()
    self:say(WORDS.payload({ length = length }))
  end
  local padding = icrc_at and icrc_at - at - length or 0
  if padding > 0 then self.root:add(fields.padding, self.tvb:range(at + length, padding)) end
end

-- The CRC is sent least significant byte first, and shown as it lies there.
local function turned(value)
  local result = 0
  for _ = 1, ICRC_LENGTH do
    result = result * 256 + value % 256
    value = math.floor(value / 256)
  end
  return result
end

function Packet:icrc(icrc_at)
  local range = self.tvb:range(icrc_at, ICRC_LENGTH)
  local branch = self.root:add(fields.icrc, range)
  local item = branch:add(fields.icrc_crc, range)
  if not mrc.prefs.check_icrc or not self.place then return end
  local expected = icrc_of(self.place, self.place.bth + icrc_at)
  local right = expected == range:le_uint()
  branch:add(fields.icrc_ok, right):set_generated()
  if right then
    item:append_text(" (right)")
  else
    branch:add(fields.icrc_expected, turned(expected)):set_generated()
    item:add_proto_expert_info(experts.icrc)
    self:say(WORDS.icrc({ wrong = 1 }))
  end
end

function Packet:wrong(reason)
  local item = self.root:add(fields.malformed, reason)
  item:set_generated()
  item:add_proto_expert_info(reason:find("^cut_short") and experts.cut_short or experts.malformed, reason)
  self:say(WORDS.verdict({ trimmed = 0, malformed = reason }))
end

function Packet:show_verdict(at, length, icrc_at, reason)
  self:payload(at, length, icrc_at)
  if icrc_at then self:icrc(icrc_at) end
  if self.trimmed then
    local item = self.root:add(fields.trimmed, true)
    item:set_generated()
    item:add_proto_expert_info(experts.trimmed)
    self:say(WORDS.verdict({ trimmed = 1, malformed = 0 }))
  end
  local place = self.place
  if not reason and place and not self.trimmed and place.finish < place.ip_finish then
    reason = ("bad_length: UDP length %d, %d bytes follow the IP header"):format(place.udp_length,
      place.ip_finish - place.udp)
  end
  if reason then self:wrong(reason) end
end

function Packet:without_bth()
  local form = self.cut and "cut_short: the capture kept %d bytes of bth, it takes 12"
    or "short_header: bth takes 12 bytes, %d are left"
  self:say("MRC")
  self:show_verdict(0, self.kept, nil, self.short or form:format(self.kept))
end

-- An answer has the EV of the packet it answers in its words: `entropy` of a SACK and of a NACK.
local function names_an_ev(opcode)
  for _, name in ipairs(opcode and opcode.headers or {}) do
    if field_of(name, "entropy") then return true end
  end
  return false
end

function Packet:whole()
  local bth = self:header("bth", 0)
  local opcode = OPCODES[bth.opcode]
  self.root:append_text((", %s, PSN: %d"):format(name_of("bth", "opcode", bth.opcode), bth.psn))
  self:say("MRC")
  self:say(WORDS.bth(bth))
  if not names_an_ev(opcode) then self:say(("EV=0x%08x"):format(self.ev)) end
  local all_headers, at, missing = BTH_LENGTH, BTH_LENGTH, nil
  if opcode then
    for _, name in ipairs(opcode.headers) do
      if name ~= "tseth" or bth.ts ~= 0 then all_headers = all_headers + HEADERS[name].length end
    end
    self.trimmed = self:is_trimmed(all_headers)
    at, missing = self:headers(bth, opcode)
  end
  local length, icrc_at, reason = self:rest(bth, opcode, at, missing, all_headers)
  if opcode and (self.trimmed or not missing) then
    follow(bth, opcode, self.values, self.trimmed and 0 or length, self.trimmed, self.pinfo)
  end
  show_facts(self.root, self.pinfo.number)
  self:show_verdict(at, length, icrc_at, reason)
end

-- The number of the frame an MRC packet was last seen in, so that it is not looked for again.
local seen_in

local function dissect(tvb, pinfo, tree)
  seen_in = pinfo.number
  local packet = Packet.new(tvb, pinfo)
  packet.root = tree:add(mrc, tvb:range(0, packet.kept))
  packet.root:add(fields.ev, packet.ev):set_generated()
  if packet.kept < BTH_LENGTH then
    packet:without_bth()
  else
    packet:whole()
  end
  pinfo.cols.protocol = "MRC"
  pinfo.cols.info = table.concat(packet.words, " ")
  return tvb:captured_len()
end
