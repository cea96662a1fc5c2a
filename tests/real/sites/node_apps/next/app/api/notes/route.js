const notes = [];

export async function POST(request) {
    const note = await request.json();
    notes.push(note.text);
    return Response.json({ count: notes.length, length: note.text.length }, { status: 201, headers: { 'Set-Cookie': 'seen=1' } });
}

export async function GET() {
    return new Response(
        new ReadableStream({
            start(controller) {
                for (const note of notes) {
                    controller.enqueue(new TextEncoder().encode(`${note.slice(0, 20)}\n`));
                }
                controller.close();
            },
        }),
    );
}
