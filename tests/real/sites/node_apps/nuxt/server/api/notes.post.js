import { notes } from '../notes';

export default defineEventHandler(async (event) => {
    const note = await readBody(event);
    notes.push(note.text);
    setResponseStatus(event, 201);
    setCookie(event, 'seen', '1');
    return { count: notes.length, length: note.text.length };
});
